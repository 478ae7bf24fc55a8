package converge

import "mcpx/internal/catalog"

// Direct is the form of a server itself for an agent, with references in the agent's own syntax. Lost says what the agent
// cannot be told: values that only mcpx can get.
func Direct(agent string, s catalog.Server) (form Form, lost []string) {
	var p Proposal
	f := direct(&p, Entry{Agent: agent}, &s)
	for _, problem := range p.Problems {
		lost = append(lost, problem.Text)
	}
	return *f, lost
}
