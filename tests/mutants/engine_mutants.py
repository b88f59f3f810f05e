"""Mistakes in sampling, models and what reaches the workers."""
from mutant import Mutant

MUTANTS = [
]
