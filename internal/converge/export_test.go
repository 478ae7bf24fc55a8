package converge

// HasHabit says whether it is known what an agent does after a change of its file.
func HasHabit(agent string) bool { return habits[agent].reload != "" }
