package daemon

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"time"

	"mcpx/internal/api"
	"mcpx/internal/atomicfile"
	"mcpx/internal/clientfile"
	"mcpx/internal/converge"
	"mcpx/internal/fault"
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
	Version string    `json:"version"`
	Digest  string    `json:"program_sha256"`
	Adapter string    `json:"adapter_version"`
	System  string    `json:"system"`
	Level   string    `json:"level"`
	Outcome string    `json:"outcome"`
	Date    time.Time `json:"date"`
}

// void says why the certificate does not count for a program with this digest; "" it does.
func (c certificate) void(digest string, now time.Time) string {
	age := now.Sub(c.Date)
	switch {
	case c.Outcome != "passed" || c.Level != "called":
		return converge.VoidFailed
	case c.Adapter != clientfile.AdapterVersion || c.System != runtime.GOOS+"/"+runtime.GOARCH:
		return converge.VoidAdapter
	case age < -time.Hour || age >= certificateLife:
		return converge.VoidExpired
	case c.Digest != digest:
		return converge.VoidProgram
	}
	return ""
}

// certificates knows which programs of agents were seen to work.
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

func (c *certificates) dir() string { return filepath.Join(c.d.cfg.Paths.State, "certificates") }

// all are the certificates that are there and can be read, by agent.
func (c *certificates) all(context.Context) map[string]converge.Certificate {
	out := map[string]converge.Certificate{}
	if _, err := os.Stat(c.dir()); err != nil {
		return out
	}
	for _, agent := range c.d.agents() {
		one, ok := readCertificate(filepath.Join(c.dir(), agent.Agent+".json"))
		if !ok || one.Agent != agent.Agent {
			continue
		}
		out[agent.Agent] = converge.Certificate{
			Version: one.Version, Program: one.Digest, Date: one.Date, Void: one.void(c.digest(agent.Client), c.d.cfg.Now()),
		}
	}
	return out
}

// keep puts a certificate in the place of an older one. One of a run that failed counts as well: then none does.
func (c *certificates) keep(agent string, data []byte) error {
	var one certificate
	if err := json.Unmarshal(data, &one); err != nil || one.Agent != agent || len(data) > maxCertificate {
		return fault.New(fault.Invalid, "certificate-invalid").Saying("this is no certificate of %s", agent).Hinting("make one with `mcpx certify %s --keep`", agent)
	}
	if err := errors.Join(api.MakePrivate(c.dir()), atomicfile.Write(filepath.Join(c.dir(), agent+".json"), data, 0o600)); err != nil {
		return fault.New(fault.Unavailable, "certify-not-kept").Saying("the certificate cannot be written to %s", c.dir()).Because(err)
	}
	return nil
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
