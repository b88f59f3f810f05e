"""Mistakes in what clients send and get."""
from mutant import Mutant

MUTANTS = [
    Mutant("best_of goes by the sum of log-probabilities, not by their mean", "coordinator/api/generation.cc",
           "choice.logprob_sum / choice.num_tokens;", "choice.logprob_sum;", ["e2e/effects_test:RequestTest.test_the_best_of_several_is_so_per_token"]),
]
