package certify

import (
	"context"
	"os"
	"strings"
	"time"

	"mcpx/internal/fault"
)

// lookWithin bounds the status command of a client.
const lookWithin = time.Minute

// Looked is what a client says of its servers.
type Looked struct {
	Agent     string   `json:"agent"`
	Command   string   `json:"command"`       // "" it has none that connects and tells
	Code      int      `json:"exit_code"`     // of the command
	Output    string   `json:"output"`        // its words
	Connected []string `json:"connected"`     // servers that were asked about
	Missing   []string `json:"not_connected"` // the others of them
}

// Look lets the client of a person connect to its servers and tell, in an empty directory and with the environment of
// whoever asks. Clients may write their own files anew meanwhile.
func Look(ctx context.Context, agent string, environ, servers []string) (Looked, error) {
	out := Looked{Agent: agent, Connected: []string{}, Missing: []string{}}
	r, known := recipeOf(agent)
	if !known || r.status == nil {
		return out, nil
	}
	dir, err := os.MkdirTemp("", "mcpx-look")
	if err != nil {
		return out, fault.New(fault.Unavailable, "certify-no-room").Saying("no directory can be made for a run of %s", r.program).Because(err)
	}
	defer func() { _ = os.RemoveAll(dir) }() // an empty directory below the temporary ones harms nobody
	out.Command = r.program + " " + strings.Join(r.status, " ")
	ctx, stop := context.WithTimeout(ctx, lookWithin)
	defer stop()
	said, err := run(ctx, dir, environ, append([]string{r.program}, r.status...))
	if err != nil {
		return out, err
	}
	out.Code, out.Output = said.code, said.text
	for _, s := range servers {
		if r.connected(s).MatchString(said.text) {
			out.Connected = append(out.Connected, s)
		} else {
			out.Missing = append(out.Missing, s)
		}
	}
	return out, nil
}
