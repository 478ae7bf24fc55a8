package clientfile

import "slices"

// Variables names every variable that the entry gives to its server: those with a value and those that the agent
// passes on.
func (e Entry) Variables() []string {
	names := slices.Clone(e.EnvNames)
	if e.def != nil {
		names = append(names, e.def.envPass...)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// Is says whether both are the same place of the same file, as one observation read it. An entry that Effective made of
// several layers is none of them.
func (e Entry) Is(other Entry) bool { return e.value != nil && e.value == other.value }
