# A table with known coefficients; every fit is seeded, so that it can be repeated.
drawn <- function(n = 1500) {
  set.seed(1)
  age <- sample(18:90, n, replace = TRUE)
  ward <- sample(c("A", "B"), n, replace = TRUE)
  cost <- 1000 + 20 * age + 300 * (ward == "B") + rnorm(n, sd = 200)
  data.frame(age = age, ward = ward, cost = pmin(pmax(round(cost, 1), 0), 5000), ill = rbinom(n, 1, 0.3))
}
lines <- c("age: 18..90", "ward: A | B", "cost: 0..5000")
fitted <- function(...) {
  sordino_fit(cost ~ age + ward, drawn(), "linear", declare = lines, epsilon = 3, delta = 1e-6,
              relation = "replace-one", seed = 1, ...)
}

test_that("a fit has coefficients, intervals, predictions and a plot", {
  fit <- fitted()
  expect_named(coef(fit), c("intercept", "age", "ward=B"))
  expect_lt(abs(coef(fit)[["age"]] - 20), 3)
  wide <- confint(fit, level = 0.99)
  narrow <- confint(fit, "age", level = 0.5)
  expect_true(wide["age", 1] < narrow[1] && narrow[2] < wide["age", 2])
  expect_equal(colnames(confint(fit)), c("2.5 %", "97.5 %"))
  predicted <- predict(fit, data.frame(age = c(20, 80), ward = c("A", "B")))
  expect_equal(nrow(predicted), 2)
  expect_gt(predicted$mean[2] - predicted$mean[1], 1000)
  expect_output(print(fit), "NON-PRIVATE")
  grDevices::pdf(NULL)
  expect_equal(rownames(plot(fit)), c("age", "ward=B"))
  grDevices::dev.off()
})

test_that("a stored release is read back", {
  fit <- fitted()
  expect_equal(coef(sordino_read(fit$path)), coef(fit))
})

test_that("the ledger refuses what it cannot pay, and says so", {
  ledger <- file.path(tempfile("budget"), "clinic.ledger")
  dir.create(dirname(ledger), mode = "0700")
  sordino_ledger(ledger, "clinic", 4, 1e-5, "replace-one")
  fitted(ledger = ledger)
  expect_error(fitted(ledger = ledger), "ledger refuses")
})

test_that("a wrong declaration is one sentence", {
  expect_error(
    sordino_fit(cost ~ age, drawn(), "linear", declare = "age: ninety", epsilon = 1, delta = 1e-6,
                relation = "replace-one"),
    "age"
  )
  expect_error(sordino_fit(cost ~ age, drawn(), "linear", epsilon = 1, delta = 1e-6, relation = "replace-one"), "Declare")
})

test_that("rows do not stay on disk", {
  before <- list.files(tempdir(), pattern = "^sordino", full.names = TRUE)
  fitted()
  expect_equal(list.files(tempdir(), pattern = "^sordino", full.names = TRUE), before)
})
