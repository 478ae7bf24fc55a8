package rig

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// Canary begins every value that stands for a secret in a test of the program. One is in the environment of every daemon and
// command, and in a header of every request of a Client.
const Canary = "rig-canary-"

// planted begin the values that stories have in their files in place of secrets.
var planted = []string{Canary, "hunter2"}

// token is a token of an agent, or one that was given over OAuth, whole.
var token = regexp.MustCompile(`mcpx_(at|oa|or)_[A-Za-z0-9_-]{40,}`)

// mayHold are the places below a home in which values lie on purpose: what its user wrote, files as they were before a plan
// took secrets out of them, and the tokens that `mcpx token print` gives back.
var mayHold = []string{"config", "user", "state/backups", "state/secrets"}

const (
	// lookMost bounds what is read of one file, at each of its ends: a journal can have a gigabyte.
	lookMost = 8 << 20
	// lookAll bounds what is read of a home.
	lookAll = 128 << 20
)

// Leaks names the files below a home that hold a planted value, as it is or encoded, or a token. The daemon has ended, or
// writes on.
func Leaks(home string) (leaks []string) {
	var needles [][]byte
	for _, value := range planted {
		needles = append(needles, []byte(value), []byte(hex.EncodeToString([]byte(value))))
		for before := range 3 { // the groups of base64 that it fills, with as many bytes before it
			text := strings.Repeat(" ", before) + value
			form := base64.RawStdEncoding.EncodeToString([]byte(text[:len(text)/3*3]))
			needles = append(needles, []byte(form[(before+2)/3*4:]))
		}
	}
	left := int64(lookAll)
	_ = filepath.WalkDir(home, func(path string, d fs.DirEntry, err error) error {
		at, relErr := filepath.Rel(home, path)
		if err != nil || relErr != nil {
			return nil // it has just been removed
		}
		if d.IsDir() && slices.Contains(mayHold, filepath.ToSlash(at)) {
			return fs.SkipDir
		}
		if !d.Type().IsRegular() || left <= 0 {
			return nil
		}
		for _, data := range ends(path) {
			left -= int64(len(data))
			i := slices.IndexFunc(needles, func(needle []byte) bool { return bytes.Contains(data, needle) })
			if i >= 0 {
				leaks = append(leaks, at+" holds "+string(needles[i]))
			}
			if token.Match(data) {
				leaks = append(leaks, at+" holds a token")
			}
		}
		return nil
	})
	return leaks
}

// ends are the bytes of a file, or its two ends when it is large.
func ends(path string) [][]byte {
	f, err := os.Open(path)
	if err != nil {
		return nil
	}
	defer f.Close()
	head, _ := io.ReadAll(io.LimitReader(f, lookMost))
	info, err := f.Stat()
	if err != nil || info.Size() <= int64(len(head)) {
		return [][]byte{head}
	}
	tail := make([]byte, lookMost)
	n, _ := f.ReadAt(tail, max(info.Size()-lookMost, lookMost-1<<10)) // the two overlap when they meet
	return [][]byte{head, tail[:n]}
}
