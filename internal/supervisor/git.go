package supervisor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/cofferhq/coffer/internal/git"
	"github.com/cofferhq/coffer/internal/rootfs"
	"github.com/cofferhq/coffer/internal/sandbox"
	"github.com/cofferhq/coffer/internal/ui"
	"github.com/cofferhq/coffer/internal/wire"
)

// commits brings commits over, both ways: before a program starts, while it runs, and when it
// has ended, before its command returns. One goroutine does it. Whoever wants it done asks
// that one, and does not wait for ever: what a program left inside may never answer.
type commits struct {
	bridge *git.Bridge // nil without
	name   string      // of a repository that is included
	stop   context.CancelFunc
	ended  chan struct{}
	asks   chan chan<- brought

	mu     sync.Mutex
	told   []string // what some command has said to the user already
	busy   bool     // it is at work
	vain   bool     // and somebody has waited for that in vain
	failed error    // why the last try did not succeed, or nil
}

// syncPatience is how long a command waits for commits to come over.
const syncPatience = 5 * time.Second

// openGit opens the sandbox's bridge, if its workspace is or has a repository, and says
// what is seen of it.
func (s *Supervisor) openGit(ctx context.Context) (*rootfs.Git, error) {
	switch s.Sandbox.Workspace.Mode {
	case sandbox.WorkspaceDirect, sandbox.WorkspaceCOW:
		return s.layGit(ctx)
	case sandbox.WorkspaceNone:
		return nil, nil
	}
	b, err := git.Open(s.Sandbox.Dir())
	if errors.Is(err, os.ErrNotExist) {
		err = ui.Error(fmt.Sprintf("sandbox %s was never completed", s.Sandbox.Name), "remove it with 'coffer rm --force "+s.Sandbox.Name+"'")
	}
	if err != nil {
		return nil, err
	}
	b.Unlock()
	view, err := b.View()
	if err == nil {
		err = b.RenewHooks()
	}
	if err == nil {
		err = b.Refresh(ctx)
	}
	if err == nil {
		s.git.bridge = b
	}
	return view, err
}

// layGit makes the git directory that lies over that of the workspace.
func (s *Supervisor) layGit(ctx context.Context) (*rootfs.Git, error) {
	sb := s.Sandbox
	b, err := git.Lay(ctx, git.Options{ID: sb.ID, Name: sb.Name, Folder: sb.Dir(), Tree: sb.Workspace.Path}, !sb.Ephemeral)
	if errors.Is(err, git.ErrNoRepository) {
		return nil, nil // or one that can only be read inside
	}
	if err != nil {
		return nil, err
	}
	if !sb.Ephemeral {
		b.Unlock()
	}
	s.git.bridge = b
	return b.View()
}

// gits are those of the sandbox's own repository and of those that it includes.
func (s *Supervisor) gits() (all []*commits) {
	if s.git.bridge != nil {
		all = append(all, &s.git)
	}
	return append(all, s.included.all...)
}

// watchGit starts to bring commits over.
func (s *Supervisor) watchGit() {
	for _, g := range s.gits() {
		ctx, stop := context.WithCancel(context.Background())
		g.stop, g.ended, g.asks = stop, make(chan struct{}), make(chan chan<- brought)
		go func() {
			defer close(g.ended)
			s.follow(ctx, g)
		}()
	}
}

// brought is what came of bringing commits over.
type brought struct {
	notes []string // what the user should know, for as long as it is so
	err   error
}

// errLate is for who does not wait any longer, and nothing is known.
var errLate = errors.New("timed out; they are fetched in the background")

// words is all of it for the user.
func (g *commits) words(b brought) (words []string) {
	words = slices.Clone(b.notes)
	if b.err != nil {
		word := "commits were not brought over: " + b.err.Error()
		if h := ui.HintOf(b.err); h != "" {
			word += "; " + h
		}
		words = append(words, word)
	}
	if g.name != "" {
		for i := range words {
			words[i] = g.name + ": " + words[i]
		}
	}
	return words
}

// of says of which repository something is, for the user, who may be asked about several.
func (g *commits) of(what string) string {
	if g.name == "" {
		return what
	}
	return what + " (repository " + g.name + ")"
}

// sync brings commits over.
func (s *Supervisor) sync(ctx context.Context, g *commits) (b brought) {
	g.begin()
	defer func() { g.done(b.err) }()
	b.notes, b.err = g.bridge.Sync(ctx, s)
	if ctx.Err() != nil || errors.Is(b.err, wire.ErrGone) {
		b.err = nil // nobody is there any more
	}
	return b
}

func (g *commits) begin() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.busy, g.vain = true, false
}

func (g *commits) done(err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.busy, g.vain, g.failed = false, false, err
}

// whyLate is for who does not wait any longer. What failed before is most likely what it is tried
// again for, and says more, to who can do something about it.
func (g *commits) whyLate() brought {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.vain = g.busy
	return brought{err: cmp.Or(g.failed, errLate)}
}

// late says whether it has been at work for longer than somebody has waited.
func (g *commits) late() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.vain
}

// bringOver has commits brought over that were made before it was called.
func (g *commits) bringOver(patience time.Duration) brought {
	if g.asks == nil {
		return brought{}
	}
	if notes, ok := g.bridge.Settled(); ok {
		return brought{notes: notes}
	}
	if g.late() {
		return g.whyLate()
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return g.within(ctx)
}

// within has commits brought over, for as long as that is waited for.
func (g *commits) within(ctx context.Context) brought {
	done := make(chan brought, 1)
	select {
	case g.asks <- done:
	case <-g.ended:
		return brought{}
	case <-ctx.Done():
		return g.whyLate()
	}
	select {
	case b := <-done:
		return b
	case <-g.ended:
		return brought{}
	case <-ctx.Done():
		return g.whyLate()
	}
}

// news is what of these notes nobody has heard, or who heard only the old ones has not.
func (g *commits) news(notes, old []string) (news []string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, n := range notes {
		if old == nil && !slices.Contains(g.told, n) || old != nil && !slices.Contains(old, n) {
			news = append(news, n)
		}
	}
	g.told = notes
	return news
}

// unheard is what of these notes to tell somebody who asks: states that last, and news that nobody
// has heard.
func (g *commits) unheard(notes []string) (words []string) {
	all := g.words(brought{notes: notes})
	g.mu.Lock()
	defer g.mu.Unlock()
	for i, w := range all {
		once := g.bridge.Once(notes[i])
		if once && slices.Contains(g.told, w) {
			continue
		}
		words = append(words, w)
		if once {
			g.told = append(slices.Clip(g.told), w)
		}
	}
	return words
}

// known is what is known about a repository before a program starts: what was said, and how the
// refs inside were if commits did not come over then.
type known struct {
	words []string
	refs  string
}

// before brings over what was committed outside, for a program that is about to start.
// It returns what to say when it has ended, and what is known about each repository.
func (s *Supervisor) before() (news []string, about map[*commits]known) {
	about = map[*commits]known{}
	for _, g := range s.gits() {
		came := g.bringOver(syncPatience)
		_ = g.bridge.RefreshMoved(context.Background()) // what cannot be read now stays as it was
		k := known{words: append([]string{}, g.words(came)...)}
		if came.err != nil {
			k.refs = g.bridge.Glance()
		}
		news, about[g] = append(news, g.news(k.words, nil)...), k
	}
	return news, about
}

// after brings over what a program committed, and returns what is new since it started. That
// commits do not come over is new to who has just made some.
func (s *Supervisor) after(about map[*commits]known) (news []string) {
	for _, g := range s.gits() {
		came, k := g.bringOver(syncPatience), about[g]
		if came.err != nil && k.refs != "" && g.bridge.Glance() != k.refs {
			k.words = []string{}
		}
		news = append(news, g.news(g.words(came), k.words)...)
	}
	return news
}

// wrapUp is after, and makes what the program changed a checkpoint meanwhile. It returns what
// to tell the user.
func (s *Supervisor) wrapUp(about map[*commits]known, e *wire.Exec) []string {
	arrived, kept := make(chan struct{}), make(chan []string, 1)
	go func() { kept <- s.afterProgram(e, arrived) }()
	news := s.after(about)
	close(arrived)
	return append(news, <-kept...)
}

// Bridged runs a program between before and after. It returns what to tell the user.
func (s *Supervisor) Bridged(program func()) []string {
	if len(s.gits()) == 0 {
		program()
		return nil
	}
	news, about := s.before()
	program()
	return append(news, s.after(about)...)
}

// CameOut is the sandbox's branch if something that was committed over the user's own directory is
// on it, and it is still checked out inside.
func (s *Supervisor) CameOut() string {
	if s.git.bridge == nil {
		return ""
	}
	return s.git.bridge.CameOut()
}

// syncSoon brings over what there is, before the sandbox is ended, if it still lives. Who
// stops it does not wait long; what does not come over now comes after the next start.
func (s *Supervisor) syncSoon() {
	for _, g := range s.gits() {
		select {
		case <-s.instance.Done():
			return
		default:
		}
		if notes := g.news(g.words(g.bringOver(4*time.Second)), nil); len(notes) > 0 {
			fmt.Fprintln(os.Stderr, strings.Join(notes, "\n"))
		}
	}
}

// lastSync ends the bringing over, after once more.
func (s *Supervisor) lastSync() {
	all := slices.DeleteFunc(s.gits(), func(g *commits) bool { return g.stop == nil })
	if len(all) == 0 {
		return
	}
	s.syncSoon()
	for _, g := range all {
		g.stop()
		<-g.ended
	}
	s.keeper.close()
}

// ForgetGit takes back what a throw-away has in the user's repository, if it ever had
// something there.
func (s *Supervisor) ForgetGit() {
	b := s.git.bridge
	if b == nil || s.git.stop == nil {
		return
	}
	s.git.stop()
	<-s.git.ended
	if b.Begun() {
		_ = b.Forget(context.Background(), false)
	}
}
