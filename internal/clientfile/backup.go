package clientfile

import (
	"encoding/json"
	"errors"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"

	"mcpx/internal/atomicfile"
	"mcpx/internal/converge"
	"mcpx/internal/crash"
	"mcpx/internal/fault"
)

// intent is what an apply is going to do to one file. It lies beside the backup, is durable before the first file is
// touched, and is all that a recovery needs. It holds no bytes of the file.
type intent struct {
	Files   int              `json:"files"` // of the receipt
	Written converge.Written `json:"written"`
	Staged  string           `json:"staged"`
}

// intentName ends the names of intents, behind the number of the file.
const intentName = ".intent"

// backupMode: a backup may hold secrets.
const (
	backupMode    fs.FileMode = 0o600
	backupDirMode fs.FileMode = 0o700
)

// backUp keeps the exact bytes of all files and what is going to happen to them. A failure leaves the files alone.
func (f *Files) backUp(receipt string, jobs []*job) error {
	dir := filepath.Join(f.cfg.Backups, receipt)
	disk := f.disk()
	err := f.makeBackups(dir)
	crash.Point("apply.backup-directory")
	for _, j := range jobs {
		if err != nil {
			break
		}
		var raw []byte
		if raw, err = json.Marshal(intent{len(jobs), j.written, j.swap.Staged}); err != nil {
			break
		}
		name := filepath.Join(dir, strconv.Itoa(j.number))
		if !j.before.Absent {
			if err = disk.Stage(name, j.before.Data, "", backupMode); err != nil {
				break
			}
			crash.Point("apply.backed-up")
		}
		err = disk.Stage(name+intentName, raw, "", backupMode)
		crash.Point("apply.intended")
	}
	if err == nil {
		err = errors.Join(disk.SyncDir(dir), disk.SyncDir(f.cfg.Backups))
	}
	if err == nil {
		crash.Point("apply.backups-durable")
		return nil
	}
	if errors.Is(err, fs.ErrExist) {
		return fault.New(fault.Conflict, "receipt-used").Saying("the receipt %s has backups already", receipt).Because(cause(err))
	}
	f.dropBackups(dir, jobs)
	return fault.New(fault.Unavailable, "backup-failed").Saying("no backup could be made in %s, so nothing was changed", f.cfg.Backups).
		Hinting("free some disk space or correct the permissions of the directory").Retrying(fault.AfterFix).Because(cause(err))
}

func (f *Files) makeBackups(dir string) error {
	if err := f.disk().Mkdir(f.cfg.Backups, backupDirMode); err != nil {
		return err
	}
	return f.disk().Mkdir(dir, backupDirMode)
}

// dropBackups removes backups of files that were not touched. What stays does no harm.
func (f *Files) dropBackups(dir string, jobs []*job) {
	for _, j := range jobs {
		name := filepath.Join(dir, strconv.Itoa(j.number))
		_ = f.disk().Remove(name)              // it may not be there
		_ = f.disk().Remove(name + intentName) // likewise
	}
	_ = f.disk().Remove(dir) // another failure left something in it
}

// intents reads what an apply was going to do. None: it was ended before it touched a file.
func (f *Files) intents(receipt string) ([]intent, error) {
	var all []intent
	for n, files := 0, 1; n < files; n++ {
		c, err := f.disk().Read(f.backup(receipt, strconv.Itoa(n)) + intentName)
		if err != nil {
			return nil, err
		}
		var i intent
		if c.Absent || json.Unmarshal(c.Data, &i) != nil {
			return nil, nil // files are touched when all intents are durable
		}
		if i.Files > maxChanges {
			return nil, fault.New(fault.Internal, "backup-damaged").Saying("the intents of %s are damaged", receipt)
		}
		all, files = append(all, i), i.Files
	}
	return all, nil
}

// backup is the file of one backup.
func (f *Files) backup(receipt, name string) string {
	return filepath.Join(f.cfg.Backups, receipt, name)
}

// before reads a backup and compares it with its hash.
func (f *Files) beforeOf(receipt string, w converge.Written) (atomicfile.Content, error) {
	if w.Before.Absent {
		return atomicfile.Content{Absent: true}, nil
	}
	c, err := f.disk().Read(f.backup(receipt, w.Backup))
	if err == nil && (c.Absent || c.SHA256 != w.Before.SHA256) {
		err = errors.New("the bytes are not those that were backed up")
	}
	if err != nil {
		return c, fault.New(fault.Internal, "backup-damaged").Saying("the backup of %s in %s cannot be used", w.Path, receipt).Because(cause(err))
	}
	return c, nil
}

// reverted is what the receipt did to the file, when a step takes a receipt back.
func (f *Files) reverted(c converge.Change) (*converge.Written, error) {
	at := slices.IndexFunc(c.Steps, func(s converge.Step) bool { return s.Op == converge.StepRevert })
	if at < 0 {
		return nil, nil
	}
	receipt := c.Steps[at].Receipt
	if err := checkReceipt(receipt, 1); err != nil {
		return nil, err
	}
	all, err := f.intents(receipt)
	if err != nil {
		return nil, err
	}
	for _, i := range all {
		if i.Written.Path == c.Path {
			return &i.Written, nil
		}
	}
	return nil, fault.New(fault.Internal, "backup-damaged").Saying("nothing is left of what %s did to %s", receipt, c.Path)
}
