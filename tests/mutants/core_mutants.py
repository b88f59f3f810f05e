"""Mistakes in the coordinator's core and cluster."""
from mutant import Mutant

MUTANTS = [
]
