// Measures decisions of golang.org/x/time/rate: one line of JSON a round.
//
//	limits hot -rounds 100 -decisions 20000
//	limits keys -keys 10000 -draws FILE -rounds 100 -decisions 20000
//	limits threads -threads 1,2,4 -rounds 10 -ms 100
//
// FILE holds the numbers of the keys to ask for, in order, as 4 bytes, the lowest first.
package main

import (
	"encoding/binary"
	"encoding/json"
	"flag"
	"fmt"
	"math"
	"os"
	"runtime"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

const (
	perDay = rate.Limit(1.0 / 86400)
	// The rate of limiters that are never used up here. Not perDay: a limiter
	// begins with at most what its rate makes in 292 years.
	perSecond = 1000
	plenty    = math.MaxInt32
	few       = 10
	chunk     = 2000
)

var (
	rounds    = flag.Int("rounds", 100, "rounds to measure")
	decisions = flag.Int("decisions", 20000, "decisions a round")
	keyCount  = flag.Int("keys", 10000, "keys")
	drawsFile = flag.String("draws", "", "the order to ask them in")
	threads   = flag.String("threads", "1,2,4", "threads")
	ms        = flag.Int("ms", 100, "length of a round of threads")
)

func main() {
	question := os.Args[1]
	flag.CommandLine.Parse(os.Args[2:])
	switch question {
	case "hot":
		hot()
	case "keys":
		keys()
	case "threads":
		parallel()
	default:
		panic("no such question: " + question)
	}
}

func report(line map[string]any) {
	text, err := json.Marshal(line)
	if err != nil {
		panic(err)
	}
	fmt.Println(string(text))
}

func expect(is bool, what string) {
	if !is {
		panic("wrong answers: " + what)
	}
}

// A way to make decisions. run returns how many were admitted; prepare makes what
// it asks for, outside the measured time.
type entrant struct {
	name    string
	prepare func(round int)
	run     func() int
	right   int
}

// Measures the entrants in turn. Each does its work once before it is timed.
func interleave(entrants []entrant) {
	once := func(each entrant, round int) float64 {
		each.prepare(round)
		start := time.Now()
		admitted := each.run()
		ns := float64(time.Since(start)) / float64(*decisions)
		expect(admitted == each.right, each.name)
		return ns
	}
	for round := 0; round < 20; round++ {
		for _, each := range entrants {
			once(each, round)
		}
	}
	runtime.GC()
	for round := 0; round < *rounds; round++ {
		for turn := range entrants {
			each := entrants[(round+turn)%len(entrants)]
			once(each, 2*round)
			report(map[string]any{"case": each.name, "ns": once(each, 2*round+1)})
		}
	}
}

func ask(limiter *rate.Limiter) int {
	admitted := 0
	for i := 0; i < *decisions; i++ {
		if limiter.Allow() {
			admitted++
		}
	}
	return admitted
}

func hot() {
	admitting := rate.NewLimiter(perSecond, plenty)
	refusing := rate.NewLimiter(perDay, few)
	expect(ask(refusing) == few, "the burst, and no more")
	interleave([]entrant{
		{"admitted", func(int) {}, func() int { return ask(admitting) }, *decisions},
		{"refused", func(int) {}, func() int { return ask(refusing) }, 0},
	})
}

// The text of an address, as measure/addresses.ts makes it.
func address(i int) string {
	number := uint32(i) * 2654435761
	return fmt.Sprintf("%d.%d.%d.%d", number>>24, number>>16&255, number>>8&255, number&255)
}

func draws() []uint32 {
	bytes, err := os.ReadFile(*drawsFile)
	if err != nil {
		panic(err)
	}
	order := make([]uint32, len(bytes)/4)
	for i := range order {
		order[i] = binary.LittleEndian.Uint32(bytes[4*i:])
	}
	return order
}

func keys() {
	names := make([]string, *keyCount)
	var byName sync.Map
	guarded := make(map[string]*rate.Limiter, *keyCount)
	var guard sync.RWMutex
	for i := range names {
		names[i] = address(i)
		byName.Store(names[i], rate.NewLimiter(perSecond, plenty))
		guarded[names[i]] = rate.NewLimiter(perSecond, plenty)
	}
	// Moves what was stored to the part that is read without a lock.
	byName.Range(func(any, any) bool { return true })
	order := draws()
	slots := len(order) / *decisions
	// A new string for each call, as from a socket.
	ready := make([]string, *decisions)
	prepare := func(round int) {
		from := round % slots * *decisions
		for i := range ready {
			ready[i] = strings.Clone(names[order[from+i]])
		}
	}
	through := func(allow func(name string) bool) func() int {
		return func() int {
			admitted := 0
			for _, name := range ready {
				if allow(name) {
					admitted++
				}
			}
			return admitted
		}
	}
	interleave([]entrant{
		{"sync.Map", prepare, through(func(name string) bool {
			limiter, isThere := byName.Load(name)
			if !isThere {
				limiter, _ = byName.LoadOrStore(name, rate.NewLimiter(perSecond, plenty))
			}
			return limiter.(*rate.Limiter).Allow()
		}), *decisions},
		{"map, RWMutex", prepare, through(func(name string) bool {
			guard.RLock()
			limiter := guarded[name]
			guard.RUnlock()
			if limiter == nil {
				guard.Lock()
				limiter = guarded[name]
				if limiter == nil {
					limiter = rate.NewLimiter(perSecond, plenty)
					guarded[name] = limiter
				}
				guard.Unlock()
			}
			return limiter.Allow()
		}), *decisions},
	})
}
