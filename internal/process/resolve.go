package process

import (
	"bufio"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"mcpx/internal/fault"
)

// defaultPath is searched when the child's environment has no PATH at all.
const defaultPath = "/usr/local/bin:/usr/bin:/bin"

// Resolve finds the file that command names for a child with the given absolute directory and environment: in the
// child's PATH, not in ours. The error is a *fault.Error of kind Invalid that says where it looked and what to do.
func Resolve(command, dir string, env []string) (string, error) {
	if err := checkDir(dir); err != nil {
		return "", err
	}
	if command == "" {
		return "", fault.New(fault.Invalid, "command-missing").
			Saying("the server has no command").
			Hinting("write the command after --, as in `mcpx server add NAME -- npx -y PACKAGE`")
	}
	if strings.ContainsRune(command, filepath.Separator) {
		file := command
		if !filepath.IsAbs(file) {
			file = filepath.Join(dir, file)
		}
		return file, checkFile(command, file)
	}
	return search(command, env)
}

func search(command string, env []string) (string, error) {
	path, ok := lookupEnv(env, "PATH")
	if !ok {
		path = defaultPath
	}
	var unusable error
	for _, dir := range filepath.SplitList(path) {
		if !filepath.IsAbs(dir) {
			continue // a relative entry would make the meaning of a command depend on its directory
		}
		file := filepath.Join(dir, command)
		switch err := checkFile(command, file); {
		case err == nil:
			return file, nil
		case fault.From(err).Code == "command-not-executable" && unusable == nil:
			unusable = err // a later directory may still have a good one
		}
	}
	if unusable != nil {
		return "", unusable
	}
	return "", fault.New(fault.Invalid, "command-not-found").
		Saying("%s not found; looked in %s", command, path).
		Hinting("install %s, give its absolute path, or set PATH for this server with --env PATH=...", command).
		Retrying(fault.AfterFix)
}

// checkFile says whether file can be executed; command is the name that the user wrote.
func checkFile(command, file string) error {
	info, err := os.Stat(file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fault.New(fault.Invalid, "command-not-found").
			Saying("%s not found", file).
			Hinting("check the path, or give only the name to search PATH").
			Retrying(fault.AfterFix)
	case err != nil:
		return fault.New(fault.Invalid, "command-not-executable").
			Saying("%s cannot be looked at", file).Because(err).
			Hinting("check the permissions of its directories").
			Retrying(fault.AfterFix)
	case info.IsDir():
		return fault.New(fault.Invalid, "command-not-executable").
			Saying("%s is a directory, not a program", file).
			Hinting("give the path of the program inside it").
			Retrying(fault.AfterFix)
	case info.Mode().Perm()&0o111 == 0:
		return fault.New(fault.Invalid, "command-not-executable").
			Saying("%s is not executable", file).
			Hinting("run `chmod +x %s`, or name the interpreter, as in `-- node %s`", file, command).
			Retrying(fault.AfterFix)
	}
	return nil
}

func checkDir(dir string) error {
	if !filepath.IsAbs(dir) {
		return fault.New(fault.Invalid, "cwd-not-absolute").
			Saying("the directory of the server is %q, not an absolute path", dir).
			Hinting("give an absolute path with --cwd").
			Retrying(fault.AfterFix)
	}
	info, err := os.Stat(dir)
	if err == nil && info.IsDir() {
		return nil
	}
	what := "is not a directory"
	if errors.Is(err, fs.ErrNotExist) {
		what = "does not exist"
	} else if err != nil {
		what = "cannot be entered"
	}
	return fault.New(fault.Invalid, "cwd-missing").
		Saying("the directory of the server, %s, %s", dir, what).Because(err).
		Hinting("create it, or choose another one with --cwd").
		Retrying(fault.AfterFix)
}

// explain turns the error of a failed exec into one that names its likely cause.
func explain(file string, err error) error {
	f := fault.New(fault.Invalid, "command-not-executable").
		Saying("%s could not be started", file).Because(err).
		Hinting("run it by hand in a shell to see why").
		Retrying(fault.AfterFix)
	// The file is there, so a missing file means the one that its first line names.
	if line := shebang(file); errors.Is(err, fs.ErrNotExist) && line != "" {
		_ = f.Saying("%s could not be started: its interpreter %s is missing", file, line).
			Hinting("install the interpreter, or name another one before the script")
	}
	return f
}

// shebang is the interpreter that a script's first line names, "" for other files.
func shebang(file string) string {
	f, err := os.Open(file)
	if err != nil {
		return ""
	}
	defer f.Close()
	line, _ := bufio.NewReaderSize(f, 256).ReadSlice('\n') // kernels read at most 256 bytes, too
	rest, ok := strings.CutPrefix(string(line), "#!")
	if fields := strings.Fields(rest); ok && len(fields) > 0 {
		return fields[0]
	}
	return ""
}
