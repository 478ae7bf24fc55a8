package process

// maxLineage bounds a walk to the ancestors of a process: a chain of shells is a dozen long, and a table that is read
// while it changes must not make a circle.
const maxLineage = 128

// Lineage is a process and its ancestors, the process itself first, as far as they can be told. It is what was true at
// the moment: a process whose parent ended belongs to another one from then on.
func Lineage(pid int) []int {
	var line []int
	for len(line) < maxLineage && pid > 0 {
		line = append(line, pid)
		parent, err := parentOf(pid)
		if err != nil {
			break
		}
		pid = parent
	}
	return line
}
