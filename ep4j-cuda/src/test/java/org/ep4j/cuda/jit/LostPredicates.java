package org.ep4j.cuda.jit;

import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.BitSet;
import java.util.Deque;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.ep4j.cuda.jit.MachineCode.Instruction;

/**
 * Guards of machine code that test a predicate of something else: NVIDIA's assembler loses
 * predicates ({@code docs/design/lost-predicates.md}). Signs of such a guard:
 *
 * <ul>
 *   <li>No instruction writes its predicate.
 *   <li>Behind each instruction that wrote the predicate, on every way, a branch has tested it.
 *       Code for sm_90a has no right guard of this kind; code for sm_100a has one.
 *   <li>It is a branch, and a function that is called on the way may have written the predicate.
 *   <li>It is a branch, and many different instructions may have written the predicate. In code
 *       that is right, one has, or the few of a condition of several parts; six were the most.
 *       Paths on which two branches need different values of a predicate do not count.
 * </ul>
 */
final class LostPredicates {
  private static final int MAX_WRITERS = 7;

  /** What branches behind a writer of a predicate tell of it. */
  private static final int NOTHING = 0;

  private static final int FALSE = 1;
  private static final int TRUE = 2;
  private static final int VALUES = 3;

  private final MachineCode code;
  private final List<Set<String>> writes;

  /** Of the search, for each way and what is known there: the last guard it was seen for. */
  private final int[] seen;

  private LostPredicates(MachineCode code) {
    this.code = code;
    this.writes = new ArrayList<>(code.instructions().stream().map(Instruction::writes).toList());
    code.callees().forEach((call, first) -> writes.set(call, writtenFrom(first)));
    this.seen = new int[2 * VALUES * code.instructions().size()];
  }

  /** The predicates that a called function may write, and those that it calls. */
  private Set<String> writtenFrom(int first) {
    Set<String> written = new HashSet<>();
    Set<Integer> passed = new HashSet<>();
    IntStack open = new IntStack();
    open.push(first);
    while (!open.isEmpty()) {
      int at = open.pop();
      if (passed.add(at)) {
        written.addAll(code.instructions().get(at).writes());
        Integer callee = code.callees().get(at);
        if (callee != null) {
          open.push(callee);
        }
        code.after().get(at).forEach(open::push);
      }
    }
    return written;
  }

  /** The guards of a function that have lost their predicate. */
  static List<String> in(MachineCode code) {
    LostPredicates search = new LostPredicates(code);
    List<String> lost = new ArrayList<>();
    for (int i = 0; i < code.instructions().size(); i++) {
      Instruction each = code.instructions().get(i);
      if (each.isGuarded() && (!each.isBranch() || each.isPlainBranch())) {
        String sign = search.sign(i);
        if (!sign.isEmpty()) {
          lost.add(code.name() + " " + each + " (" + sign + ")");
        }
      }
    }
    return lost;
  }

  private String sign(int guarded) {
    Map<Integer, BitSet> writers = writers(guarded);
    if (writers.isEmpty()) {
      return "no instruction writes it";
    }
    if (writers.values().stream()
        .allMatch(values -> values.cardinality() == 1 && !values.get(NOTHING))) {
      return "branches before have tested it";
    }
    if (!code.instructions().get(guarded).isBranch()) {
      return "";
    }
    if (writers.keySet().stream().anyMatch(code.callees()::containsKey)) {
      return "a function that is called writes it";
    }
    long different = different(writers.keySet());
    if (different > MAX_WRITERS) {
      different = different(writersOnFeasiblePaths(guarded));
    }
    return different > MAX_WRITERS ? different + " instructions write it" : "";
  }

  private long different(Set<Integer> writers) {
    return writers.stream()
        .map(code.instructions()::get)
        .map(writer -> writer.operation() + " " + writer.operands())
        .distinct()
        .count();
  }

  /**
   * The instructions that may have written the predicate, without those from which every path to
   * the guard takes branches that need two values of a predicate. The search trusts the predicates
   * of these branches. It takes long, so only suspects are searched.
   */
  private Set<Integer> writersOnFeasiblePaths(int guarded) {
    String predicate = code.instructions().get(guarded).predicate();
    Set<Integer> writers = new HashSet<>();
    Set<Path> passed = new HashSet<>();
    Deque<Path> open = new ArrayDeque<>();
    open.push(new Path(guarded, Map.of()));
    while (!open.isEmpty()) {
      Path behind = open.pop();
      for (MachineCode.Step step : code.before().get(behind.from())) {
        Instruction instruction = code.instructions().get(step.from());
        Map<String, Boolean> known = new HashMap<>(behind.known());
        if (instruction.isPlainBranch() && instruction.isGuarded()) {
          boolean value = step.jumps() != instruction.negated();
          Boolean needed = known.put(instruction.predicate(), value);
          if (needed != null && needed != value) {
            continue;
          }
        }
        known.keySet().removeAll(writes.get(step.from()));
        if (writes.get(step.from()).contains(predicate)) {
          writers.add(step.from());
          if (!instruction.isGuarded()) {
            continue;
          }
        }
        Path path = new Path(step.from(), known);
        if (passed.add(path)) {
          open.push(path);
        }
      }
    }
    return writers;
  }

  /** The paths from an instruction to a guard that need these values of predicates. */
  private record Path(int from, Map<String, Boolean> known) {}

  /** The instructions that may have written the predicate, with what branches behind them tell. */
  private Map<Integer, BitSet> writers(int guarded) {
    String predicate = code.instructions().get(guarded).predicate();
    Map<Integer, BitSet> writers = new HashMap<>();
    IntStack open = new IntStack();
    push(open, guarded, NOTHING);
    while (!open.isEmpty()) {
      int place = open.pop();
      if (seen[place] == guarded + 1) {
        continue;
      }
      seen[place] = guarded + 1;
      int step = place / VALUES;
      int known = place % VALUES;
      int from = step / 2;
      Instruction instruction = code.instructions().get(from);
      if (known == NOTHING
          && instruction.isPlainBranch()
          && instruction.predicate().equals(predicate)) {
        known = (step % 2 == 1) == instruction.negated() ? FALSE : TRUE;
      }
      if (writes.get(from).contains(predicate)) {
        writers.computeIfAbsent(from, writer -> new BitSet()).set(known);
        if (!instruction.isGuarded()) {
          continue;
        }
      }
      push(open, from, known);
    }
    return writers;
  }

  /** The ways to an instruction, as {@code writers} takes them. */
  private void push(IntStack open, int to, int known) {
    for (MachineCode.Step step : code.before().get(to)) {
      open.push(VALUES * (2 * step.from() + (step.jumps() ? 1 : 0)) + known);
    }
  }

  private static final class IntStack {
    private int[] values = new int[1024];
    private int size;

    boolean isEmpty() {
      return size == 0;
    }

    void push(int value) {
      if (size == values.length) {
        values = Arrays.copyOf(values, 2 * size);
      }
      values[size++] = value;
    }

    int pop() {
      return values[--size];
    }
  }
}
