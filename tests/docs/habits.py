"""Phrases that make a Kafka engineer read a sentence twice. They are counted against the budget in CONTRIBUTING.md."""

from __future__ import annotations

import re
from collections import Counter

# Phrase → how to write it instead. The words of test_words.RETIRED are forbidden; these are only rare.
HABITS = {
    r"\b(?:told|tells?|telling)\b(?! apart)": "report, return, pass, show",
    r"\b(?:it|which|that|page|verdict|log|file|table|row|name|option|figure|run)s? (?:says?|said)\b": "show, contain",
    r"\b(?:stands?|stood)\b(?! (?:still|up|alone|for|by))": "is in, is at, remains",
    r"\bnobody (?:is|was|has|can|may|will|knows?|reads?|sees?|asks?|\w+ed)\b": "name the actor",
    r"(?:^|[.;:,] )who(?:ever)? (?!is it\b)[a-z]+": "name the actor",
    r"(?:^|\. )Of (?:a|an|the|all|one|each|every|what)\b": "subject first",
    r"(?:^|[.;] )What [a-z' ]{2,40}? (?:is|has|was|goes|comes|came|cannot|lies) (?![^.]*\?)": "name the thing",
    r"\bof (?:which|whom)\b": "two sentences",
    r"\b(?:be|is|are|was) had\b": "exists, is available",
    r"\bbesides?\b": "next to, in parallel, also",
    r"\b(?:is|are|was|were|be) gone\b": "was removed, ended, no longer exists",
    r"\bc[ao]mes? true\b": "condition met",
    r"\b(?:is|are|was|were|be) asked\b": "queried, requested, configured",
    r"\bowed\b": "required",
    r"\b(?:by|of) its own\b(?! accord)": "itself, separate",
    r"\bas (?:it|they) (?:is|are|was|were|stands?|should be)\b": "unchanged",
    r"\b(?:aside|room for)\b": "separately, space for",
    r"(?:^|[.;] )No [a-z ]{2,30}? (?:is|are|has|have|was|were)\b": "a positive statement",
    r"\b(?:surely|thereby|whereof|wherein|henceforth|hence|for ever|how long still|at all)\b": "leave out",
    r"(?:^|[.;] )(?:Refused|Passed over|Left out|Counted|Rejected) (?:is|are|was|were)\b": "X is rejected",
    r"\blets? go of\b": "releases",
    r"\bawait(?:s|ed)?\b(?!\()": "wait for",
    r"\bwas let go\b": "was released",
}
COMPILED = {re.compile(pattern, re.IGNORECASE | re.MULTILINE): instead for pattern, instead in HABITS.items()}


def habits_in(text: str) -> Counter[str]:
    """Count the phrases of a text; the keys are the phrases as written, in lower case."""
    found = (match.group().strip(" .,;:").lower() for pattern in COMPILED for match in pattern.finditer(text))
    return Counter(" ".join(phrase.split()) for phrase in found)
