"""Estimators: models fitted under differential privacy, with scikit-learn's methods."""

from discreet.estimators.naive_bayes import GaussianNaiveBayes

__all__ = ["GaussianNaiveBayes"]
