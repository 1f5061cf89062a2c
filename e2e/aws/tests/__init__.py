"""Tests of the double, against the double as it runs."""
