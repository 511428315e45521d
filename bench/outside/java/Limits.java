// Measures decisions of Guava's RateLimiter: one line of JSON a round.
//
//     java Limits hot rounds=100 decisions=20000
//     java Limits keys keys=10000 draws=FILE rounds=100 decisions=20000
//     java Limits threads threads=1,2,4 draws=FILE rounds=10 ms=100
//
// FILE holds the numbers of the keys to ask for, in order, as 4 bytes, the lowest first.

import com.google.common.util.concurrent.RateLimiter;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CyclicBarrier;
import java.util.function.IntConsumer;
import java.util.function.IntFunction;
import java.util.function.IntSupplier;

public final class Limits {
  static final double PER_DAY = 1.0 / 86_400;
  /** More permits a second than anybody can take. */
  static final double PLENTY = 2e9;
  static final int CHUNK = 2_000;
  static final int OWN_KEYS = 10_000;

  static int rounds;
  static int decisions;
  static int keyCount;
  static int ms;
  static long warmUpNs;
  static int[] order;

  public static void main(String[] args) throws Exception {
    Map<String, String> options = new HashMap<>();
    for (String each : Arrays.asList(args).subList(1, args.length)) options.put(each.split("=")[0], each.split("=")[1]);
    rounds = Integer.parseInt(options.getOrDefault("rounds", "100"));
    decisions = Integer.parseInt(options.getOrDefault("decisions", "20000"));
    keyCount = Integer.parseInt(options.getOrDefault("keys", "10000"));
    ms = Integer.parseInt(options.getOrDefault("ms", "100"));
    // Long enough for the compiler to finish with the loops.
    warmUpNs = 1_000_000L * Integer.parseInt(options.getOrDefault("warmUpMs", "1500"));
    if (options.containsKey("draws")) order = draws(options.get("draws"));
    switch (args[0]) {
      case "hot" -> hot();
      case "keys" -> keys();
      case "threads" -> {
        String[] sizes = options.getOrDefault("threads", "1,2,4").split(",");
        threads(Arrays.stream(sizes).mapToInt(Integer::parseInt).toArray());
      }
      default -> throw new IllegalArgumentException("no such question: " + args[0]);
    }
  }

  static int[] draws(String file) throws Exception {
    ByteBuffer bytes = ByteBuffer.wrap(Files.readAllBytes(Path.of(file))).order(ByteOrder.LITTLE_ENDIAN);
    int[] order = new int[bytes.remaining() / 4];
    bytes.asIntBuffer().get(order);
    return order;
  }

  static void expect(boolean is, String what) {
    if (!is) throw new AssertionError("wrong answers: " + what);
  }

  /**
   * A way to make decisions. It returns how many were admitted. What it asks for
   * is prepared outside the measured time.
   */
  record Entrant(String name, IntConsumer prepare, IntSupplier run, int right) {
    double ns(int round) {
      prepare.accept(round);
      long start = System.nanoTime();
      int admitted = run.getAsInt();
      long end = System.nanoTime();
      expect(admitted == right, name);
      return (double) (end - start) / decisions;
    }
  }

  /** The entrants in turn, each warm: a round before it is timed. */
  static void interleave(Entrant... entrants) {
    long until = System.nanoTime() + warmUpNs;
    for (int round = 0; System.nanoTime() < until; round++) for (Entrant each : entrants) each.ns(round);
    System.gc();
    for (int round = 0; round < rounds; round++) {
      for (int turn = 0; turn < entrants.length; turn++) {
        Entrant each = entrants[(round + turn) % entrants.length];
        each.ns(2 * round);
        System.out.printf("{\"case\":\"%s\",\"ns\":%.3f}%n", each.name, each.ns(2 * round + 1));
      }
    }
  }

  static RateLimiter usedUp() {
    RateLimiter limiter = RateLimiter.create(PER_DAY);
    expect(limiter.tryAcquire() && !limiter.tryAcquire(), "one, and no more");
    return limiter;
  }

  static int admitted(RateLimiter limiter, int count) {
    int admitted = 0;
    for (int i = 0; i < count; i++) if (limiter.tryAcquire()) admitted++;
    return admitted;
  }

  /** The same again: compiled by itself, for what it meets. */
  static int refused(RateLimiter limiter, int count) {
    int admitted = 0;
    for (int i = 0; i < count; i++) if (limiter.tryAcquire()) admitted++;
    return admitted;
  }

  static void hot() {
    RateLimiter plenty = RateLimiter.create(PLENTY);
    RateLimiter few = usedUp();
    interleave(
        new Entrant("admitted", round -> {}, () -> admitted(plenty, decisions), decisions),
        new Entrant("refused", round -> {}, () -> refused(few, decisions), 0));
  }

  /** The text of an address as addresses.js makes it. */
  static String address(int i) {
    int number = i * (int) 2654435761L;
    return (number >>> 24) + "." + (number >>> 16 & 255) + "." + (number >>> 8 & 255) + "." + (number & 255);
  }

  static void keys() {
    String[] names = new String[keyCount];
    ConcurrentHashMap<String, RateLimiter> limiters = new ConcurrentHashMap<>(keyCount);
    for (int i = 0; i < keyCount; i++) {
      names[i] = address(i);
      limiters.put(names[i], RateLimiter.create(PLENTY));
    }
    int slots = order.length / decisions;
    // A new string for each call, as from a socket.
    String[] ready = new String[decisions];
    IntConsumer prepare = round -> {
      int from = round % slots * decisions;
      for (int i = 0; i < decisions; i++) {
        byte[] text = names[order[from + i]].getBytes(StandardCharsets.ISO_8859_1);
        ready[i] = new String(text, StandardCharsets.ISO_8859_1);
      }
    };
    IntSupplier run = () -> {
      int admitted = 0;
      for (String key : ready) {
        RateLimiter limiter = limiters.get(key);
        if (limiter == null) limiter = limiters.computeIfAbsent(key, unknown -> RateLimiter.create(PLENTY));
        if (limiter.tryAcquire()) admitted++;
      }
      return admitted;
    };
    interleave(new Entrant("ConcurrentHashMap", prepare, run, decisions));
  }

  /** What a thread does, CHUNK decisions at a time. */
  record Job(String name, IntFunction<IntSupplier> make) {}

  static void threads(int[] sizes) throws Exception {
    int most = Arrays.stream(sizes).max().getAsInt();
    ConcurrentHashMap<String, RateLimiter> limiters = new ConcurrentHashMap<>();
    for (int i = 0; i < (1 + most) * OWN_KEYS; i++) limiters.put(address(i), RateLimiter.create(PLENTY));
    RateLimiter shared = RateLimiter.create(PLENTY);
    RateLimiter few = usedUp();
    List<Job> jobs = List.of(
        new Job("own keys, strings", me -> byKey(limiters, me)),
        new Job("own key, hot", me -> {
          RateLimiter own = RateLimiter.create(PLENTY);
          return () -> admitted(own, CHUNK);
        }),
        new Job("one key, refused", me -> () -> refused(few, CHUNK)),
        new Job("one key, admitted", me -> () -> admitted(shared, CHUNK)));
    List<List<IntSupplier>> crews = new ArrayList<>();
    for (Job job : jobs) {
      List<IntSupplier> crew = new ArrayList<>();
      for (int me = 0; me < most; me++) crew.add(job.make.apply(me));
      crews.add(crew);
    }
    for (List<IntSupplier> crew : crews) together(crew, warmUpNs / jobs.size());
    for (int round = 0; round < rounds; round++) {
      for (int j = 0; j < jobs.size(); j++) {
        String name = jobs.get(j).name;
        for (int size : sizes) {
          Done done = together(crews.get(j).subList(0, size), ms * 1_000_000L);
          expect(done.admitted == (name.equals("one key, refused") ? 0 : done.asked), name);
          System.out.printf("{\"case\":\"%s\",\"threads\":%d,\"perMs\":%.3f}%n", name, size, done.perMs);
        }
      }
    }
  }

  static IntSupplier byKey(ConcurrentHashMap<String, RateLimiter> limiters, int me) {
    String[] names = new String[OWN_KEYS];
    for (int i = 0; i < OWN_KEYS; i++) names[i] = address((1 + me) * OWN_KEYS + i);
    int[] at = {0};
    return () -> {
      int admitted = 0;
      for (int i = at[0]; i < at[0] + CHUNK; i++) if (limiters.get(names[order[i]]).tryAcquire()) admitted++;
      at[0] = (at[0] + CHUNK) % order.length;
      return admitted;
    };
  }

  record Done(double perMs, long asked, long admitted) {}

  /** Lets the threads work at the same time for so long. */
  static Done together(List<IntSupplier> work, long lengthNs) throws Exception {
    CyclicBarrier begin = new CyclicBarrier(work.size());
    Done[] done = new Done[work.size()];
    List<Thread> threads = new ArrayList<>();
    for (int me = 0; me < work.size(); me++) {
      int mine = me;
      Thread thread = new Thread(() -> {
        try {
          begin.await();
        } catch (Exception error) {
          throw new IllegalStateException(error);
        }
        done[mine] = workFor(work.get(mine), lengthNs);
      });
      threads.add(thread);
      thread.start();
    }
    for (Thread thread : threads) thread.join();
    double perMs = 0;
    long asked = 0;
    long admitted = 0;
    for (Done each : done) {
      perMs += each.perMs;
      asked += each.asked;
      admitted += each.admitted;
    }
    return new Done(perMs, asked, admitted);
  }

  static Done workFor(IntSupplier decide, long lengthNs) {
    long asked = 0;
    long admitted = 0;
    long start = System.nanoTime();
    long end = start;
    while (end - start < lengthNs) {
      admitted += decide.getAsInt();
      asked += CHUNK;
      end = System.nanoTime();
    }
    return new Done(asked * 1e6 / (end - start), asked, admitted);
  }
}
