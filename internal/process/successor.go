package process

import "os"

// Succession says how to start a process that is to take the place of ours.
type Succession struct {
	Exe   string
	Args  []string // without the name
	Env   []string // the whole environment
	Log   *os.File // its stdout and stderr; nil is the null device
	Files []*os.File
}

// The first descriptors of a successor; those of Succession.Files follow in their order.
const (
	ordersFD  = 3
	reportsFD = 4
	filesFD   = 5
)
