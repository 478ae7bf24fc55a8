package process

// KillStrays ends every process that was started with this variable, NAME=value, in its environment, but ours. It finds
// what left the group and the session in which it was started. The value must be one that nobody else can have.
func KillStrays(variable string) (killed []int) {
	for _, id := range having(variable, 0) {
		if Kill(id) {
			killed = append(killed, id.Pid)
		}
	}
	return killed
}
