package daemon

import (
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"

	"mcpx/internal/api"
	"mcpx/internal/fault"
	"mcpx/internal/key"
	"mcpx/internal/policy"
	"mcpx/internal/work"
)

// projectRules puts the policy of the user and that of a project together. The file of the project is read for each call: it
// is small, and what it says counts as soon as it is there.
type projectRules struct {
	user func() policy.Policy
	log  *slog.Logger

	mu   sync.Mutex // guards told
	told map[string][sha256.Size]byte
}

// of are the rules for the project with this root.
func (p *projectRules) of(root string) policy.Rules {
	rules, warnings, data := rulesOf(p.user(), root)
	if p.news(root, data) {
		if why := rules.Broken(); why != "" {
			p.log.LogAttrs(context.Background(), slog.LevelWarn, "the policy file of a project does not load", slog.String(key.Path, root), slog.String(key.Cause, why))
		}
		for _, warning := range warnings {
			p.log.LogAttrs(context.Background(), slog.LevelWarn, "a project cannot loosen the policy", slog.String(key.Path, root), slog.String(key.Cause, warning))
		}
	}
	return rules
}

// news tells that a file has other bytes than when it was told of.
func (p *projectRules) news(root string, data []byte) bool {
	sum := sha256.Sum256(data)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.told == nil {
		p.told = map[string][sha256.Size]byte{}
	}
	before, known := p.told[root]
	p.told[root] = sum
	return len(data) > 0 && (!known || before != sum)
}

// rulesOf reads the file of a project. One that cannot be read is as broken as one that is no TOML.
func rulesOf(user policy.Policy, root string) (rules policy.Rules, warnings []string, data []byte) {
	data, err := readProjectPolicy(filepath.Join(root, work.ProjectPolicy))
	if err != nil {
		return policy.Combine(user, policy.Policy{}, err.Error()), nil, []byte(err.Error())
	}
	project, warnings, err := parseProjectPolicy(data)
	if err != nil {
		return policy.Combine(user, policy.Policy{}, fault.From(err).Message), nil, data
	}
	return policy.Combine(user, project, ""), warnings, data
}

func readProjectPolicy(path string) ([]byte, error) {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, errors.New(work.ProjectPolicy + " is no regular file")
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if opened, err := f.Stat(); err != nil || !os.SameFile(info, opened) {
		return nil, errors.New(work.ProjectPolicy + " changes while it is read")
	}
	data, err := io.ReadAll(io.LimitReader(f, maxSettings+1))
	if err == nil && len(data) > maxSettings {
		err = errors.New(work.ProjectPolicy + " is too large")
	}
	return data, err
}

// CheckedPolicies is what loading the policy files would say.
type CheckedPolicies struct {
	OK    bool            `json:"ok"`
	Files []CheckedPolicy `json:"files"`
}

// CheckedPolicy is one policy file.
type CheckedPolicy struct {
	Path     string   `json:"path"`
	There    bool     `json:"there"`
	OK       bool     `json:"ok"`
	Problem  string   `json:"problem,omitempty"`
	Warnings []string `json:"warnings"`
}

// CheckPolicies reads the policy file of the user and that of the project with this root.
func CheckPolicies(paths api.Paths, root string) CheckedPolicies {
	user := CheckedPolicy{Path: paths.Policy(), Warnings: []string{}}
	if _, err := os.Lstat(user.Path); err == nil {
		user.There = true
	}
	policies, err := LoadPolicy(user.Path)
	if user.OK = err == nil; err != nil {
		user.Problem = fault.From(err).Error()
	}
	rules, warnings, _ := rulesOf(policies.Work, root)
	project := CheckedPolicy{Path: filepath.Join(root, work.ProjectPolicy), Problem: rules.Broken(), Warnings: append([]string{}, warnings...)}
	if _, err := os.Lstat(project.Path); err == nil {
		project.There = true
	}
	project.OK = project.Problem == ""
	return CheckedPolicies{OK: user.OK && project.OK, Files: []CheckedPolicy{user, project}}
}
