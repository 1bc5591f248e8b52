// Package agents is a dialect for agents that keep their memory in three layers: values under keys,
// fragments that are found by meaning, and a graph of entities and relations; with sessions, the usage of
// language models, and a move of all of it.
//
// All of an agent lies below /api/agents/ID, and /api/budget/agents ranks agents by their cost. Bodies and
// answers are JSON; a key that a body does not have is refused. An error is {"error": "what failed"}.
//
// What belongs to an agent is what belongs to it and the user of the key; without a user in the key, to
// the agent alone.
package agents
