package tree

import (
	"errors"
	"fmt"
	"io/fs"
)

// Code names a refusal in the vocabulary of the tools at /mcp (durable-work.md section 4, runtime.md section 4.2).
type Code string

// The codes. FileBusy is explained in docs/decisions/0028.
const (
	ArgumentInvalid Code = "ARGUMENT_INVALID"
	Outside         Code = "SCOPE_OUTSIDE_PROJECT"
	LinkEscape      Code = "LINK_ESCAPE"
	PathAlias       Code = "PATH_ALIAS"
	NotFound        Code = "NOT_FOUND"
	NotAFile        Code = "NOT_A_FILE"
	NotADirectory   Code = "NOT_A_DIRECTORY"
	SpecialFile     Code = "SPECIAL_FILE"
	Unsupported     Code = "FS_UNSUPPORTED"
	NameEncoding    Code = "NAME_ENCODING"
	CaseCollision   Code = "CASE_COLLISION"
	FileDenied      Code = "FILE_DENIED"
	FileBusy        Code = "FILE_BUSY"
	LimitExceeded   Code = "LIMIT_EXCEEDED"
	CursorInvalid   Code = "CURSOR_INVALID"
	Exists          Code = "EXISTS"
	DuplicatePath   Code = "DUPLICATE_PATH"
	Moved           Code = "CANONICAL_MOVED"
	ContestedCode   Code = "CONTESTED"
	NoSpace         Code = "NO_SPACE"
	ReadOnly        Code = "READ_ONLY"
	TargetRoot      Code = "TARGET_ROOT"
	Internal        Code = "INTERNAL"
)

// Problem is a refusal. Message and Details hold paths as they were asked for and reasons, never a size, a hash or a
// content.
type Problem struct {
	Code    Code
	Message string
	Details map[string]any
	cause   error
}

func refuse(code Code, format string, args ...any) *Problem {
	return &Problem{Code: code, Message: fmt.Sprintf(format, args...)}
}

// With adds a detail.
func (p *Problem) With(key string, value any) *Problem {
	p.note(key, value)
	return p
}

func (p *Problem) note(key string, value any) {
	if p.Details == nil {
		p.Details = map[string]any{}
	}
	p.Details[key] = value
}

// Error is the message. The cause is not in it: it may name a path outside of the project.
func (p *Problem) Error() string { return p.Message }

// Unwrap gives the error of the system to errors.Is.
func (p *Problem) Unwrap() error { return p.cause }

func (p *Problem) because(err error) *Problem {
	p.cause = err
	return p
}

// Full says whether an error is that of a disk, or a quota, on which there is no space.
func Full(err error) bool { return CodeOf(err) == NoSpace || isNoSpace(err) }

// CodeOf is the code of the problem in the chain; "" for nil, Internal for an error of another type.
func CodeOf(err error) Code {
	if err == nil {
		return ""
	}
	if p, ok := errors.AsType[*Problem](err); ok {
		return p.Code
	}
	return Internal
}

// reading turns an error of the system, met while path was looked at or read, into a problem.
func reading(err error, path string) error {
	if _, ok := errors.AsType[*Problem](err); err == nil || ok {
		return err
	}
	switch {
	case errors.Is(err, fs.ErrNotExist), isNotDir(err):
		return refuse(NotFound, "%s does not exist", path).because(err)
	case errors.Is(err, fs.ErrPermission):
		return refuse(FileDenied, "the system does not let mcpx read %s", path).With("reason", "permissions").because(err)
	}
	return general(err, path)
}

// writing does the same for a change.
func writing(err error, path string) error {
	if _, ok := errors.AsType[*Problem](err); err == nil || ok {
		return err
	}
	switch {
	case errors.Is(err, fs.ErrNotExist), isNotDir(err):
		return refuse(NotFound, "the directory of %s does not exist", path).because(err)
	case errors.Is(err, fs.ErrExist):
		return refuse(Exists, "%s exists", path).because(err)
	case errors.Is(err, fs.ErrPermission), isReadOnly(err):
		return refuse(ReadOnly, "the system does not let mcpx change %s", path).because(err)
	}
	return general(err, path)
}

func general(err error, path string) error {
	switch {
	case isNoSpace(err): // of a copy, too, that was read from one place and written to another
		return refuse(NoSpace, "there is no space for %s", path).because(err)
	case isCrossing(err):
		return refuse(Unsupported, "%s is on another mount than the project", path).With("reason", "mount").because(err)
	case isLoop(err):
		return refuse(PathAlias, "%s leads through symbolic links", path).because(err)
	case isBadName(err):
		return refuse(NameEncoding, "the file system cannot store the name %q", path).because(err)
	case isTooLong(err):
		return refuse(ArgumentInvalid, "%q is too long", path).because(err)
	case errors.Is(err, errors.ErrUnsupported):
		return refuse(Unsupported, "files of projects are not served on this system").because(err)
	}
	return refuse(Internal, "the system failed at %s", path).because(err)
}
