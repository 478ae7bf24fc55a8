package process

// Memory is what a process holds in memory, in bytes.
type Memory struct {
	RSS int64 // resident pages, shared ones counted in full
	PSS int64 // resident pages, shared ones divided among their users; 0 where the system cannot tell
}
