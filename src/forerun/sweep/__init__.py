"""Plan, trials, cost model, choice and policy."""
