"""Mistakes in what clients send and get."""
from mutant import Mutant

MUTANTS = [
]
