package process

import "golang.org/x/sys/unix"

const getTermios = unix.TIOCGETA
