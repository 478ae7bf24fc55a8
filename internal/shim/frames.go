package shim

// kept is the list of answers and questions that are held, in order of arrival.
type kept struct {
	oldest, newest *entry
	bytes          int
	delivered      int // how many of them are answers that a daemon was given
}

// hold keeps the frame of an entry, and makes room for it.
func (j *journal) hold(e *entry, frame []byte, given bool) {
	j.clock++
	e.frame, e.arrived = frame, j.clock
	k := &j.frames
	if e.older = k.newest; e.older == nil {
		k.oldest = e
	} else {
		e.older.newer = e
	}
	k.newest = e
	k.bytes += len(frame)
	if given && !e.question {
		e.delivered = true
		k.delivered++
	}
	for k.bytes > j.bytes {
		j.evict()
	}
}

// release lets the frame of an entry go.
func (j *journal) release(e *entry) {
	if e.frame == nil {
		return
	}
	k := &j.frames
	if e.older == nil {
		k.oldest = e.newer
	} else {
		e.older.newer = e.newer
	}
	if e.newer == nil {
		k.newest = e.older
	} else {
		e.newer.older = e.older
	}
	e.older, e.newer = nil, nil
	k.bytes -= len(e.frame)
	e.frame = nil
	if e.delivered {
		e.delivered = false
		k.delivered--
	}
}

// evict gives one frame up: an answer that some daemon was given, else whatever is oldest.
func (j *journal) evict() {
	victim := j.frames.oldest
	if j.frames.delivered > 0 {
		for !victim.delivered {
			victim = victim.newer
		}
	}
	if victim.question {
		j.refuseEntry(victim)
		return
	}
	j.release(victim)
	victim.state = lost
}

// drop forgets a question.
func (j *journal) drop(e *entry) {
	j.wanted.drop(e)
	j.release(e)
	j.asking.remove(e)
}

func (j *journal) refuseEntry(e *entry) {
	j.drop(e)
	j.refuse(e.id())
}

// refuse leaves a question to the caller, who must answer that nobody will.
func (j *journal) refuse(id string) {
	j.refused++
	j.refusals = append(j.refusals, []byte(id))
}

// takeRefusals are the ids that were refused since the last call.
func (j *journal) takeRefusals() [][]byte {
	ids := j.refusals
	j.refusals = nil
	return ids
}

// takeFrames is all that is held, in order of arrival. The ring is empty then; answers and questions stay, and count as
// delivered.
func (j *journal) takeFrames() [][]byte {
	lines := j.ring.take()
	all := make([][]byte, 0, len(lines))
	for e := j.frames.oldest; e != nil; e = e.newer {
		for len(lines) > 0 && lines[0].arrived < e.arrived {
			all = append(all, lines[0].text)
			lines = lines[1:]
		}
		all = append(all, e.frame)
		if !e.question && !e.delivered {
			e.delivered = true
			j.frames.delivered++
		}
	}
	for _, l := range lines {
		all = append(all, l.text)
	}
	return all
}
