library(testthat)
library(sordino)
test_check("sordino")
