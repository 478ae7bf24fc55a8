package converge

import "time"

// Certificate is what is known of the evidence that a real client works with what mcpx writes, governance.md section 14.
type Certificate struct {
	Version string    // of the client that was tried, as it says it
	Program string    // SHA-256 of its program, in hex
	Date    time.Time // of the run
	Void    string    // why it does not count, a code; "" it does
}

// Name tells a certificate from every other one of its agent.
func (c Certificate) Name() string { return c.Program + " " + c.Date.UTC().Format(time.RFC3339Nano) }

// Why a certificate does not count.
const (
	VoidFailed  = "certificate-failed"  // the run did not pass, or did not call a tool
	VoidProgram = "client-changed"      // another program is installed, or none
	VoidAdapter = "adapter-changed"     // another version of mcpx reads and writes the files, or it is of another system
	VoidExpired = "certificate-expired" // it is too old, or from the future
	VoidAbsent  = "certificate-absent"  // there is none, or it cannot be read
)
