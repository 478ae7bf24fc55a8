package converge

// HasHabit says whether it is known what an agent does after a change of its file.
func HasHabit(agent string) bool { return habits[agent].reload != "" }

// Seal makes one plan of a world that is read for it alone.
func Seal(p Proposal, changes []Change, problems []Problem, w World) (Plan, bool) {
	return NewSealer(w).Seal(p, changes, problems)
}
