# Drive Sordino from R, and read what it releases: base R and jsonlite, nothing else.
#
#   source("sordino.R")
#   sordino("fit", "logistic", "patients.csv", schema = "schema.json", epsilon = 1, delta = 1e-6,
#           relation = "replace-one", ledger = "clinic.ledger", out = "release")
#   sordino_coefficients("release")
#
# The program is found by the option "sordino", or by the environment variable SORDINO, or on the path. Whatever it
# refuses becomes an R error with the same sentence; a refusal of the ledger has the class "sordino_ledger_refusal".

library(jsonlite)

.sordino_program <- function() {
  given <- getOption("sordino", Sys.getenv("SORDINO", "sordino"))
  strsplit(given, " ", fixed = TRUE)[[1]]
}

# Named arguments become options: out = "x" is --out x, or_constant = TRUE is --or-constant; a vector repeats its option.
.sordino_words <- function(arguments) {
  words <- character()
  names <- names(arguments)
  for (place in seq_along(arguments)) {
    value <- arguments[[place]]
    name <- if (is.null(names)) "" else names[[place]]
    if (!nzchar(name)) {
      words <- c(words, as.character(value))
    } else if (is.logical(value)) {
      if (isTRUE(value)) words <- c(words, paste0("--", gsub("_", "-", name)))
    } else if (!is.null(value)) {
      for (one in value) words <- c(words, paste0("--", gsub("_", "-", name)), format(one, digits = 15))
    }
  }
  words
}

# Run a command; its answer as a list, or invisibly NULL where it says nothing as JSON.
sordino <- function(...) {
  program <- .sordino_program()
  words <- c(program[-1], .sordino_words(list(...)), "--json")
  out <- tempfile(); err <- tempfile()
  on.exit(unlink(c(out, err)))
  code <- suppressWarnings(system2(program[1], shQuote(words), stdout = out, stderr = err))
  if (code != 0) {
    said <- tail(readLines(err, warn = FALSE), 1)
    kind <- c(if (code == 3) "sordino_ledger_refusal", "sordino_error", "error", "condition")
    stop(structure(class = kind, list(message = sub("^sordino: ", "", said), call = sys.call(-1), code = code)))
  }
  text <- paste(readLines(out, warn = FALSE), collapse = "\n")
  if (nzchar(text)) fromJSON(text) else invisible(NULL)
}

# Coefficients with intervals in the units of the table, one row each; costs no budget.
sordino_coefficients <- function(release, level = 0.95) {
  found <- sordino("show", release, level = level)$coefficients
  ends <- do.call(rbind, lapply(found$interval, function(one) if (is.null(one)) c(NA, NA) else one))
  data.frame(
    name = found$name, estimate = found$estimate, standard_error = found$standard_error,
    low = ends[, 1], high = ends[, 2], z = found$z, p_value = found$p_value,
    row.names = NULL, stringsAsFactors = FALSE
  )
}

# Effects as differences of mean outcomes, or margins of columns; costs no budget.
sordino_effects <- function(release, ...) sordino("show", release, effects = TRUE, ...)$margins
sordino_margins <- function(release, columns, ...) sordino("show", release, margins = columns, ...)$margins

# Draws of the coefficients, one column each; costs no budget.
sordino_draws <- function(release, draws = 1000, seed = NULL) {
  as.data.frame(sordino("show", release, draws = draws, seed = seed), check.names = FALSE)
}

# What a release says of itself: spec, bound, schema and settings, straight from its folder.
sordino_release <- function(release) {
  fromJSON(file.path(release, "release.json"), simplifyVector = FALSE)
}
