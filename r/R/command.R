# The command line of Sordino, called from R: arguments in, one JSON document out.

#' Where the command line is
#'
#' Looks at `options(sordino.command = )`, then at the environment variable SORDINO, then at the search path.
#' @return A character vector: the program and its first arguments.
sordino_command <- function() {
  given <- getOption("sordino.command", strsplit(Sys.getenv("SORDINO", "sordino"), " ", fixed = TRUE)[[1]])
  if (!nzchar(Sys.which(given[1])) && !file.exists(given[1])) {
    stop("The program ", sQuote(given[1]), " was not found. Install it with `pip install sordino`, or set ",
         "options(sordino.command = ).", call. = FALSE)
  }
  given
}

# Runs a command and returns its answer. A refusal becomes an R error with Sordino's own sentence.
run <- function(arguments, json = TRUE) {
  command <- sordino_command()
  answer <- tempfile()
  problems <- tempfile()
  on.exit(unlink(c(answer, problems)))
  arguments <- c(command[-1], arguments, if (json) "--json")
  code <- system2(command[1], shQuote(arguments), stdout = answer, stderr = problems)
  said <- trimws(paste(readLines(problems, warn = FALSE), collapse = "\n"))
  if (code == 3) stop("The ledger refuses: ", said, call. = FALSE)
  if (code != 0) stop(if (nzchar(said)) said else paste("sordino ended with code", code), call. = FALSE)
  if (nzchar(said)) message(said)
  if (json) jsonlite::fromJSON(answer, simplifyDataFrame = FALSE) else invisible(NULL)
}

# A data frame as a CSV file for its owner alone; a path as it is.
as_file <- function(data, columns = NULL) {
  if (is.character(data)) return(list(path = data, temporary = FALSE))
  stopifnot(is.data.frame(data))
  if (!is.null(columns)) data <- data[, columns, drop = FALSE]
  folder <- tempfile("sordino")
  dir.create(folder, mode = "0700")
  path <- file.path(folder, "rows.csv")
  write.csv(data, path, row.names = FALSE, na = "", fileEncoding = "UTF-8")
  list(path = path, temporary = TRUE)
}

forget <- function(file) if (file$temporary) unlink(dirname(file$path), recursive = TRUE)
