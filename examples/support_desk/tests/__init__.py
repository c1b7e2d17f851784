"""Tests of the support desk."""
