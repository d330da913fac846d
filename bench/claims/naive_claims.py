"""Mechanisms from papers and textbooks, written down as they are often written, and what is claimed of them.

Laplace and Gaussian noise added in floating point (Mironov 2012; Jin, McMurtry, Rubinstein and Ohrimenko 2022), and the
six versions of the sparse vector technique that Lyu, Su and Li (2017) compare. A row of the table is what one person
adds to each of some queries of sensitivity 1.
"""

import random

import numpy as np

EPSILON = 1.0
ONE_NUMBER = {"records": {"low": 0.0, "high": 1.0}, "size": [1, 1]}
NUMBERS = {"records": {"low": 0.0, "high": 1.0}, "size": [0, 6]}
QUERIES = {"records": [{"values": [-1, 1, 0]}] * 4, "size": [0, 4]}


def claim(domain, relation="add-remove", epsilon=EPSILON, delta=0.0, arithmetic="exact"):
    return {"epsilon": epsilon, "delta": delta, "relation": relation, "domain": domain, "arithmetic": arithmetic}


CLAIMS = {
    "numpy_laplace": claim(NUMBERS),
    "inverse_laplace": claim(NUMBERS),
    "numpy_gaussian": claim(NUMBERS, epsilon=1.0, delta=1e-5),
    "float32_laplace": claim(NUMBERS),
    "noisy_max_value": claim(QUERIES, arithmetic="real"),
    "sparse_vector_1": claim(QUERIES, arithmetic="real"),
    "sparse_vector_2": claim(QUERIES, arithmetic="real"),
    "sparse_vector_3": claim(QUERIES, arithmetic="real"),
    "sparse_vector_4": claim(QUERIES, arithmetic="real"),
    "sparse_vector_5": claim(QUERIES, arithmetic="real"),
    "sparse_vector_6": claim(QUERIES, arithmetic="real"),
}


def numpy_laplace(table):
    return sum(table) + np.random.laplace(0.0, 1 / EPSILON)


def inverse_laplace(table):
    uniform = random.random() - 0.5
    return sum(table) - np.sign(uniform) * np.log(1 - 2 * abs(uniform)) / EPSILON


def numpy_gaussian(table):
    return sum(table) + np.random.normal(0.0, 3.74)  # the analytic Gaussian mechanism for epsilon 1 and delta 1e-5


def float32_laplace(table):
    return np.float32(np.float32(sum(table)) + np.float32(np.random.laplace(0.0, 1 / EPSILON)))


def _answers(table):
    return [float(sum(row[place] for row in table)) for place in range(4)]


def _laplace(scale):
    return float(np.random.laplace(0.0, scale)) if scale else 0.0


def noisy_max_value(table):
    """Report noisy max that returns the noisy value too (Ding et al. 2018)."""
    return max(answer + _laplace(2 / EPSILON) for answer in _answers(table))


def _sparse_vector(table, *, threshold_noise, query_noise, numeric=0.0, stop=True, anew=False, threshold=0.0, most=1):
    """Above or below the threshold, query by query; `stop` after `most` that are above."""
    limit = threshold + _laplace(threshold_noise)
    said, above = [], 0
    for answer in _answers(table):
        noised = answer + _laplace(query_noise)
        if noised >= limit:
            said.append(answer + _laplace(numeric) if numeric > 0 else noised if numeric < 0 else 1)
            above += 1
            if anew:
                limit = threshold + _laplace(threshold_noise)
            if stop and above >= most:
                break
        else:
            said.append(None)
    return said


def sparse_vector_1(table):
    """Lyu et al.: private."""
    return _sparse_vector(table, threshold_noise=2 / EPSILON, query_noise=4 / EPSILON)


def sparse_vector_2(table):
    """Dwork and Roth 2014: private, the threshold is noised anew."""
    return _sparse_vector(table, threshold_noise=2 / EPSILON, query_noise=4 / EPSILON, anew=True)


def sparse_vector_3(table):
    """Roth 2011: the noisy answer is released; not private for any epsilon."""
    return _sparse_vector(table, threshold_noise=2 / EPSILON, query_noise=2 / EPSILON, numeric=-1.0)


def sparse_vector_4(table):
    """Lee and Clifton 2014: query noise does not grow with the number of answers; (1 + 6c) / 4 times epsilon."""
    return _sparse_vector(table, threshold_noise=4 / EPSILON, query_noise=4 / (3 * EPSILON), most=2)


def sparse_vector_5(table):
    """Stoddard et al. 2014: no noise on the queries; not private for any epsilon."""
    return _sparse_vector(table, threshold_noise=2 / EPSILON, query_noise=0.0, stop=False)


def sparse_vector_6(table):
    """Chen et al. 2015: does not stop; not private for any epsilon."""
    return _sparse_vector(table, threshold_noise=2 / EPSILON, query_noise=2 / EPSILON, stop=False)
