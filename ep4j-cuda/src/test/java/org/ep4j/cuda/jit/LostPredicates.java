package org.ep4j.cuda.jit;

import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.EnumSet;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.ep4j.cuda.jit.MachineCode.Instruction;
import org.ep4j.cuda.jit.MachineCode.Step;

/**
 * Guards of machine code that test a predicate of something else: NVIDIA's assembler loses
 * predicates ({@code docs/design/lost-predicates.md}). Two signs tell such a guard:
 *
 * <ul>
 *   <li>Its value is known: on every way from each instruction that wrote the predicate, a branch
 *       has tested it. No compiler keeps such a guard.
 *   <li>Many different instructions may have written the predicate. In code that is right, a guard
 *       has one of them, or the few of a condition of several parts; six were the most.
 * </ul>
 */
final class LostPredicates {
  private static final int MAX_WRITERS = 7;

  /** What is known of a predicate where a guard tests it. */
  private enum Known {
    NOTHING,
    FALSE,
    TRUE
  }

  private record Place(Step step, Known known) {}

  private final MachineCode code;
  private final List<Set<String>> writes;

  private LostPredicates(MachineCode code) {
    this.code = code;
    this.writes = code.instructions().stream().map(Instruction::writes).toList();
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
    Map<Integer, Set<Known>> writers = writers(guarded);
    long different =
        writers.keySet().stream()
            .map(code.instructions()::get)
            .map(writer -> writer.operation() + " " + writer.operands())
            .distinct()
            .count();
    if (different > MAX_WRITERS && code.instructions().get(guarded).isBranch()) {
      return different + " instructions write it";
    }
    boolean known =
        writers.values().stream()
            .allMatch(values -> values.size() == 1 && !values.contains(Known.NOTHING));
    return known && !writers.isEmpty() ? "branches before have tested it" : "";
  }

  /** The instructions that may have written the predicate, with what branches behind them tell. */
  private Map<Integer, Set<Known>> writers(int guarded) {
    String predicate = code.instructions().get(guarded).predicate();
    Map<Integer, Set<Known>> writers = new HashMap<>();
    Set<Place> seen = new HashSet<>();
    Deque<Place> open = new ArrayDeque<>();
    code.before().get(guarded).forEach(step -> open.push(new Place(step, Known.NOTHING)));
    while (!open.isEmpty()) {
      Place place = open.pop();
      if (!seen.add(place)) {
        continue;
      }
      int from = place.step.from();
      Instruction instruction = code.instructions().get(from);
      Known known = place.known;
      if (known == Known.NOTHING
          && instruction.isPlainBranch()
          && instruction.predicate().equals(predicate)) {
        known = place.step.jumps() != instruction.negated() ? Known.TRUE : Known.FALSE;
      }
      if (writes.get(from).contains(predicate)) {
        writers.computeIfAbsent(from, writer -> EnumSet.noneOf(Known.class)).add(known);
        if (!instruction.isGuarded()) {
          continue;
        }
      }
      for (Step step : code.before().get(from)) {
        open.push(new Place(step, known));
      }
    }
    return writers;
  }
}
