// Several threads, each on keys of its own or all on one key.
package main

import (
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"
)

const ownKeys = 10000

// What one thread does. A call of what make returns makes chunk decisions.
type job struct {
	name string
	make func(me int) func() int
}

func parallel() {
	var byName sync.Map
	crew := []int{}
	for _, text := range strings.Split(*threads, ",") {
		size, err := strconv.Atoi(text)
		if err != nil {
			panic(err)
		}
		crew = append(crew, size)
	}
	most := crew[len(crew)-1]
	for i := 0; i < (1+most)*ownKeys; i++ {
		byName.Store(address(i), rate.NewLimiter(perSecond, plenty))
	}
	byName.Range(func(any, any) bool { return true })
	order := draws()
	own := make([]*rate.Limiter, most)
	for i := range own {
		own[i] = rate.NewLimiter(perSecond, plenty)
	}
	admitting := rate.NewLimiter(perSecond, plenty)
	refusing := rate.NewLimiter(perDay, few)
	singly := func(limiter *rate.Limiter) func() int {
		return func() int {
			admitted := 0
			for i := 0; i < chunk; i++ {
				if limiter.Allow() {
					admitted++
				}
			}
			return admitted
		}
	}
	jobs := []job{
		{"own keys, strings", func(me int) func() int {
			names := make([]string, ownKeys)
			for i := range names {
				names[i] = address((1+me)*ownKeys + i)
			}
			at := 0
			return func() int {
				admitted := 0
				for _, i := range order[at : at+chunk] {
					limiter, _ := byName.Load(names[i])
					if limiter.(*rate.Limiter).Allow() {
						admitted++
					}
				}
				at = (at + chunk) % len(order)
				return admitted
			}
		}},
		{"own key, hot", func(me int) func() int { return singly(own[me]) }},
		{"one key, refused", func(int) func() int { return singly(refusing) }},
		{"one key, admitted", func(int) func() int { return singly(admitting) }},
	}
	made := make([][]func() int, len(jobs))
	for i, each := range jobs {
		for me := 0; me < most; me++ {
			made[i] = append(made[i], each.make(me))
		}
	}
	for round := -1; round < *rounds; round++ {
		for i, each := range jobs {
			for _, size := range crew {
				perMs, asked, admitted := together(made[i][:size])
				if each.name == "one key, refused" {
					expect(admitted <= few, each.name)
				} else {
					expect(admitted == asked, each.name)
				}
				if round >= 0 {
					report(map[string]any{"case": each.name, "threads": size, "perMs": perMs})
				}
			}
		}
	}
	taken := few - refusing.Tokens()
	expect(taken > few-0.01, "all of the burst was taken")
}

// Lets all workers do their job at the same time. Returns decisions a millisecond, and the counts.
func together(work []func() int) (perMs float64, asked, admitted int) {
	runtime.GOMAXPROCS(len(work))
	var ready, done sync.WaitGroup
	var total sync.Mutex
	begin := make(chan struct{})
	var stop atomic.Bool
	for _, each := range work {
		ready.Add(1)
		done.Add(1)
		go func(decide func() int) {
			runtime.LockOSThread()
			ready.Done()
			<-begin
			start := time.Now()
			mine, yes := 0, 0
			for !stop.Load() {
				yes += decide()
				mine += chunk
			}
			took := float64(time.Since(start)) / 1e6
			total.Lock()
			perMs += float64(mine) / took
			asked += mine
			admitted += yes
			total.Unlock()
			done.Done()
		}(each)
	}
	ready.Wait()
	close(begin)
	time.Sleep(time.Duration(*ms) * time.Millisecond)
	stop.Store(true)
	done.Wait()
	return
}
