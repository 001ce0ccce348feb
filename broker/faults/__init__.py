"""Faults that tests ask for: rules say which requests, which of these, and what happens to them.

Reading order: `rule.py` (a rule as data, and as JSON), `rule_checks.py` (what is refused when a rule is made),
`matching.py` (which requests a rule means, and how near the others came), `rule_counts.py` (on which of them it acts),
`active_rule.py` (a rule in force), `acts.py` (the acts, with the checks of their values), `faulted_request.py` (a
request on its way through the rules), `error_answers.py` (an error code at the level where an API has it),
`answer_bytes.py` (damaged answers), `topology_answers.py` (answers about another cluster), `active_rules.py` (the rules
in force: for requests, new connections and the disk). Rules by the story that people test: `testkit/fault_stories.py`.

Where no rule is set, nothing of this package is on the way of a request: the broker has no interceptor for it.
"""
