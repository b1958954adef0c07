"""A verdict for its readers: JUnit for CI, Markdown for a pull request, one HTML page for a person.

Whatever a case holds was written by others: none of it is markup in any of them.
"""
