# Fits: a formula, declared columns and a budget go in; a release folder comes out.

#' Declare the columns of a table
#'
#' @param data A data frame or the path of a table; only names and types are read.
#' @param target The name of the outcome.
#' @param declare Lines such as "age: 0..110" and "ward: A | B", from public knowledge.
#' @param records The public number of records, or of units.
#' @param unit The column that identifies a person with several records.
#' @param out Where the schema is written.
#' @return The path of the schema file.
sordino_schema <- function(data, target, declare, records = NULL, unit = NULL, out = tempfile(fileext = ".json")) {
  file <- as_file(data)
  on.exit(forget(file))
  lines <- c(declare, if (!is.null(records)) paste("records =", format(records, scientific = FALSE)))
  run(c("schema", "new", file$path, "--target", target, as.vector(rbind("--column", lines)),
        if (!is.null(unit)) c("--unit", unit), "--out", out), json = FALSE)
  out
}

#' Open a ledger: the privacy budget of a dataset
#'
#' @param path The file to make.
#' @param dataset The name of the dataset.
#' @param epsilon,delta The whole budget.
#' @param relation "replace-one" or "add-remove".
#' @return The path.
sordino_ledger <- function(path, dataset, epsilon, delta, relation) {
  run(c("ledger", "open", path, "--dataset", dataset, "--epsilon", epsilon, "--delta", delta,
        "--relation", relation))
  path
}

#' Fit a private regression
#'
#' Rows are read only after the budget was debited. A budget that is too small is refused before anything is spent.
#' @param formula Outcome and columns, such as ill ~ age + ward.
#' @param data A data frame, or the path of a table.
#' @param family One of "linear", "logistic", "robust", "poisson", "negative-binomial".
#' @param schema The path of a schema; or give `declare`.
#' @param declare Lines for `sordino_schema`.
#' @param epsilon,delta The budget of this fit.
#' @param relation "replace-one" (the number of records is public) or "add-remove"; there is no default.
#' @param ledger The ledger to debit; absent: none is kept.
#' @param out The release folder; absent: a temporary one.
#' @param records,unit As in `sordino_schema`; under replace-one, records defaults to the number of rows.
#' @param seed For trying things out: the release is marked NON-PRIVATE.
#' @return An object of class "sordino".
sordino_fit <- function(formula, data, family, schema = NULL, declare = NULL, epsilon, delta, relation,
                        ledger = NULL, out = tempfile("release"), records = NULL, unit = NULL, seed = NULL) {
  relation <- match.arg(relation, c("replace-one", "add-remove"))
  named <- all.vars(formula)
  columns <- if (is.data.frame(data)) c(if ("." %in% named) names(data) else named, unit)
  file <- as_file(data, unique(columns))
  on.exit(forget(file))
  if (is.null(schema)) {
    if (is.null(declare)) stop("Declare the columns, with lines such as \"age: 0..110\", or give a schema.", call. = FALSE)
    if (is.null(records) && relation == "replace-one" && is.data.frame(data) && is.null(unit)) records <- nrow(data)
    schema <- sordino_schema(file$path, named[1], declare, records, unit)
  }
  plain <- "." %in% named || !any(attr(terms(formula), "order") > 1)
  answer <- run(c("fit", family, file$path, "--schema", schema, "--epsilon", epsilon, "--delta", delta,
                  "--relation", relation, "--out", out, if (!is.null(ledger)) c("--ledger", ledger),
                  if (!is.null(seed)) c("--seed", seed),
                  if (!plain) c("--formula", paste(deparse(formula), collapse = " "))))
  sordino_read(out, answer)
}

#' Read a release folder
#'
#' @param path The folder.
#' @param answer What the fit said, if it was made just now.
#' @return An object of class "sordino".
sordino_read <- function(path, answer = NULL) {
  structure(list(path = path, answer = answer, shown = run(c("show", path))), class = "sordino")
}

shown_at <- function(object, level) {
  if (isTRUE(all.equal(level, object$shown$level))) object$shown else run(c("show", object$path, "--level", level))
}

number <- function(value) if (is.null(value)) NA_real_ else as.numeric(value)

#' The coefficients as a data frame
#' @param x,row.names,optional,level,... A fit, and the level of its intervals.
as.data.frame.sordino <- function(x, row.names = NULL, optional = FALSE, level = 0.95, ...) {
  rows <- shown_at(x, level)$coefficients
  pick <- function(name) vapply(rows, function(row) number(row[[name]]), 0)
  ends <- lapply(rows, function(row) if (is.null(row$interval)) c(NA_real_, NA_real_) else as.numeric(row$interval))
  data.frame(
    estimate = pick("estimate"), std.error = pick("standard_error"),
    low = vapply(ends, `[`, 0, 1), high = vapply(ends, `[`, 0, 2),
    z = pick("z"), p.value = pick("p_value"),
    row.names = vapply(rows, `[[`, "", "name")
  )
}

coef.sordino <- function(object, ...) {
  table <- as.data.frame(object)
  setNames(table$estimate, rownames(table))
}

confint.sordino <- function(object, parm, level = 0.95, ...) {
  table <- as.data.frame(object, level = level)
  ends <- as.matrix(table[, c("low", "high")])
  tails <- c((1 - level) / 2, 1 - (1 - level) / 2)
  colnames(ends) <- paste(format(100 * tails, trim = TRUE), "%")
  if (missing(parm)) ends else ends[parm, , drop = FALSE]
}

summary.sordino <- function(object, level = 0.95, ...) {
  shown <- shown_at(object, level)
  structure(list(title = shown$title, warnings = unlist(shown$warnings), table = as.data.frame(object, level = level),
                 level = level), class = "summary.sordino")
}

print.summary.sordino <- function(x, ...) {
  cat(x$title, "\n\n", sep = "")
  print(x$table, digits = 4)
  for (caution in x$warnings) cat("\nCaution: ", caution, "\n", sep = "")
  invisible(x)
}

print.sordino <- function(x, ...) {
  print(summary(x))
  invisible(x)
}

#' Predictions of a release; they cost no budget
#' @param object,newdata,level,... A fit, rows without the outcome, and the level of the intervals.
predict.sordino <- function(object, newdata, level = 0.9, ...) {
  file <- as_file(newdata)
  table <- tempfile(fileext = ".csv")
  on.exit({ forget(file); unlink(table) })
  run(c("predict", object$path, file$path, "--level", level, "--out", table), json = FALSE)
  read.csv(table, check.names = FALSE)
}

#' A forest plot of the coefficients but the intercept
#' @param x,level,... A fit, the level of the intervals, and settings of `plot`.
plot.sordino <- function(x, level = 0.95, ...) {
  table <- as.data.frame(x, level = level)
  table <- table[rownames(table) != "intercept", , drop = FALSE]
  rows <- rev(seq_len(nrow(table)))
  kept <- par(mar = c(4, max(4, 0.6 * max(nchar(rownames(table)))), 2, 1))
  on.exit(par(kept))
  plot(table$estimate, rows, xlim = range(table$low, table$high, 0, na.rm = TRUE), ylim = c(0.5, length(rows) + 0.5),
       yaxt = "n", ylab = "", xlab = paste0("estimate, ", 100 * level, " % interval"), pch = 19, ...)
  abline(v = 0, lty = 2)
  segments(table$low, rows, table$high, rows)
  axis(2, at = rows, labels = rownames(table), las = 1)
  invisible(table)
}
