package daemon

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"time"

	"mcpx/internal/clientfile"
)

const (
	// certificateLife is how long a certificate counts.
	certificateLife = 180 * 24 * time.Hour
	// maxCertificate bounds the file of a certificate, in bytes; a real one has a few KiB.
	maxCertificate = 1 << 20
)

// certificate is the part of the file of a certificate that decides whether it counts.
type certificate struct {
	Agent   string    `json:"agent"`
	Digest  string    `json:"program_sha256"`
	Adapter string    `json:"adapter_version"`
	System  string    `json:"system"`
	Level   string    `json:"level"`
	Outcome string    `json:"outcome"`
	Date    time.Time `json:"date"`
}

// counts says whether the certificate is one of this agent, adapter and system, from a run that called a tool.
func (c certificate) counts(agent string, now time.Time) bool {
	age := now.Sub(c.Date)
	return c.Agent == agent && c.Adapter == clientfile.AdapterVersion && c.System == runtime.GOOS+"/"+runtime.GOARCH &&
		c.Level == "called" && c.Outcome == "passed" && age >= -time.Hour && age < certificateLife
}

// certificates finds the agents whose program is the one that was seen to work.
type certificates struct {
	d *Daemon

	mu     sync.Mutex
	hashed map[string]hashed // by path of a program: some have 200 MB
}

type hashed struct {
	info os.FileInfo
	sum  string
}

func newCertificates(d *Daemon) *certificates {
	return &certificates{d: d, hashed: map[string]hashed{}}
}

// certified are the agents with a certificate that counts for the program which is installed now.
func (c *certificates) certified(context.Context) map[string]bool {
	dir := filepath.Join(c.d.cfg.Paths.State, "certificates")
	out := map[string]bool{}
	if _, err := os.Stat(dir); err != nil {
		return out
	}
	for _, agent := range c.d.agents() {
		one, ok := readCertificate(filepath.Join(dir, agent.Agent+".json"))
		if ok && agent.Client != "" && one.counts(agent.Agent, c.d.cfg.Now()) && one.Digest == c.digest(agent.Client) {
			out[agent.Agent] = true
		}
	}
	return out
}

func readCertificate(path string) (one certificate, ok bool) {
	info, err := os.Stat(path)
	if err != nil || !info.Mode().IsRegular() || info.Size() > maxCertificate {
		return one, false
	}
	data, err := os.ReadFile(path)
	return one, err == nil && json.Unmarshal(data, &one) == nil
}

// digest is the SHA-256 of a program in hex, or a word that no certificate has.
func (c *certificates) digest(path string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	info, err := os.Stat(path)
	if err != nil || !info.Mode().IsRegular() {
		return "unreadable"
	}
	if known, ok := c.hashed[path]; ok && os.SameFile(known.info, info) && known.info.Size() == info.Size() && known.info.ModTime().Equal(info.ModTime()) {
		return known.sum
	}
	f, err := os.Open(path)
	if err != nil {
		return "unreadable"
	}
	defer f.Close()
	hash := sha256.New()
	if _, err := io.Copy(hash, f); err != nil {
		return "unreadable"
	}
	sum := hex.EncodeToString(hash.Sum(nil))
	c.hashed[path] = hashed{info, sum}
	return sum
}
