//go:build unix

package shim

import (
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"mcpx/internal/operation"
	"mcpx/internal/process"
)

// kindJob is the kind of a spec that is of a job; specs of servers name none.
const kindJob = "job"

// stubArg is the second argument of the process that waits at the gate and becomes the command.
const stubArg = "stub"

// jobFormat is the version of the files in the directory of a job.
const jobFormat = 1

// jobDir is the directory of one attempt: state/jobs/<id>.<attempt>. It is written by the daemon (spec, stop, void, input)
// and by the supervisor (the others), and every file but the output is written whole.
type jobDir struct{ bundle }

func jobDirOf(jobs string, ref operation.JobRef) jobDir {
	return jobDir{bundle(filepath.Join(jobs, ref.ID+"."+strconv.Itoa(ref.Attempt)))}
}

// refOf reads the name of a directory.
func refOf(name string) (operation.JobRef, bool) {
	id, attempt, ok := strings.Cut(name, ".")
	n, err := strconv.Atoi(attempt)
	return operation.JobRef{ID: id, Attempt: n}, ok && err == nil && n > 0 && strings.HasPrefix(id, "job_")
}

func (d jobDir) file(name string) string { return filepath.Join(string(d.bundle), name) }

func (d jobDir) started() string { return d.file("started") }
func (d jobDir) void() string    { return d.file("void") }
func (d jobDir) stop() string    { return d.file("stop") }
func (d jobDir) stopped() string { return d.file("stopped") }
func (d jobDir) input() string   { return d.file("input") }

// jobSpec is written by the daemon before the start. Values of variables and the text for stdin are not in it.
type jobSpec struct {
	Format  int               `json:"format"`
	Kind    string            `json:"kind"`
	ID      string            `json:"id"`
	File    string            `json:"file"`
	Argv    []string          `json:"argv"`
	Dir     string            `json:"dir"`
	Env     map[string]string `json:"env"` // name: digest of the value
	Stdin   operation.Stdin   `json:"stdin"`
	Timeout time.Duration     `json:"timeout"`
	Temp    string            `json:"temp"`
	Version string            `json:"version"` // of the daemon; the supervisor is the same binary
}

// jobRecord is written by the supervisor before it starts anything.
type jobRecord struct {
	Format     int              `json:"format"`
	Supervisor process.Identity `json:"supervisor"`
	Version    string           `json:"version"`
}

// jobStarted is durable before the gate opens. The pid is the id of the group, too.
type jobStarted struct {
	Format int              `json:"format"`
	At     time.Time        `json:"at"`
	Child  process.Identity `json:"child"`
	Argv   string           `json:"argv"` // digest
}

// jobExit is how the command ended. It is written once.
type jobExit struct {
	Format int `json:"format"`
	operation.JobExit
	Usage  process.Usage `json:"usage"`
	Stdout written       `json:"stdout"`
	Stderr written       `json:"stderr"`
}

// written is what a stream had come to.
type written struct {
	Bytes   int64 `json:"bytes"`
	Dropped int64 `json:"dropped,omitempty"` // between the first and the last part that are kept
	Lost    int64 `json:"lost,omitempty"`    // the disk did not take them; not in Bytes
}

// jobStop is a wish to end the job, by the daemon.
type jobStop struct {
	By     string        `json:"by"`
	Signal string        `json:"signal"`
	Grace  time.Duration `json:"grace"`
}

// jobStopped tells that a stop was carried out, by the supervisor.
type jobStopped struct {
	By        string `json:"by"`
	Survivors []int  `json:"survivors"`
}

// readJob reads a file of a job in a format that this version knows.
func readJob[T any](path string, format func(*T) int) (*T, error) {
	var v T
	if err := readJSON(path, &v); err != nil {
		return nil, err
	}
	if f := format(&v); f < 1 || f > jobFormat {
		return nil, fmt.Errorf("%s has format %d, this version reads 1 to %d", path, f, jobFormat)
	}
	return &v, nil
}
