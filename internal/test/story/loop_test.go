package story

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"mcpx/internal/clientfile"
)

// certify AGENT PROGRAM writes the certificate that a passed run of a real client would leave. A PROGRAM without a slash is
// looked for in PATH, as the daemon does.
func certify(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: certify AGENT PROGRAM")
	}
	path := ts.MkAbs(args[1])
	if !strings.Contains(args[1], "/") {
		for _, dir := range filepath.SplitList(ts.Getenv("PATH")) {
			if info, err := os.Stat(filepath.Join(dir, args[1])); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
				path = filepath.Join(dir, args[1])
				break
			}
		}
	}
	program, err := os.ReadFile(path)
	ts.Check(err)
	sum := sha256.Sum256(program)
	data, err := json.Marshal(map[string]any{
		"agent": args[0], "program_sha256": hex.EncodeToString(sum[:]), "adapter_version": clientfile.AdapterVersion,
		"system": runtime.GOOS + "/" + runtime.GOARCH, "level": "called", "outcome": "passed", "date": time.Now().UTC(),
	})
	ts.Check(err)
	dir := filepath.Join(ts.Getenv("MCPX_HOME"), "state", "certificates")
	ts.Check(os.MkdirAll(dir, 0o700))
	ts.Check(os.WriteFile(filepath.Join(dir, args[0]+".json"), data, 0o600))
}
