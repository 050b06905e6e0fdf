package org.ep4j.cuda.jit;

import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.BitSet;
import java.util.Deque;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * A function in machine code, as {@code nvdisasm -c} prints it.
 *
 * @param name the section of the function
 * @param instructions in the order of their addresses
 * @param before for each instruction, those that may run just before it
 * @param after for each instruction, those that may run just after it; for a call the one behind it
 * @param callees for each call, the first instruction of what it calls
 */
record MachineCode(
    String name,
    List<Instruction> instructions,
    List<List<Step>> before,
    List<List<Integer>> after,
    Map<Integer, Integer> callees) {
  private static final Pattern SECTION = Pattern.compile("^\\s*\\.section\\s+\\.text\\.([^,\\s]+)");
  private static final Pattern OTHER_SECTION = Pattern.compile("^\\s*\\.section\\s");
  private static final Pattern LABEL = Pattern.compile("^(\\S+):\\s*$");
  private static final Pattern CODE =
      Pattern.compile(
          "^\\s*/\\*([0-9a-f]{4,6})\\*/\\s+(?:@(!?)(P\\d)\\s+)?(?:@!?UP\\d\\s+)?([A-Z][\\w.]*)\\s*(.*?)\\s*;");

  /**
   * An instruction.
   *
   * @param predicate the predicate register that guards it, or ""
   * @param negated whether it runs where the predicate is false
   */
  record Instruction(
      String address, String predicate, boolean negated, String operation, String operands) {
    private static final Pattern TARGET = Pattern.compile("`\\((\\S+?)\\)");
    private static final Pattern REGISTER = Pattern.compile("U?R\\d+(\\.\\w+)*|RZ|URZ");
    private static final Pattern PREDICATE = Pattern.compile("U?P\\d|U?PT");
    private static final Set<String> WRITES_NONE =
        Set.of("ST", "STS", "STG", "BRA", "BSSY", "BSYNC", "RED", "MEMBAR", "NOP", "EXIT", "CALL");
    private static final Set<String> WRITES_ONE = Set.of("VOTE", "VOTEU", "ELECT", "MATCH");

    boolean isGuarded() {
      return !predicate.isEmpty();
    }

    boolean isBranch() {
      return base().equals("BRA");
    }

    boolean isCall() {
      return base().equals("CALL");
    }

    Instruction asBranch() {
      return new Instruction(address, predicate, negated, "BRA", operands);
    }

    private String base() {
      return operation.split("\\.", 2)[0];
    }

    private String target() {
      Matcher target = TARGET.matcher(operands);
      return (isBranch() || isCall()) && target.find() ? target.group(1) : "";
    }

    /** Whether it is a branch that depends on its guard alone. */
    boolean isPlainBranch() {
      return operation.equals("BRA") && operands.startsWith("`");
    }

    private boolean mayContinue() {
      return switch (base()) {
        case "BRA" -> isGuarded() || !isPlainBranch();
        case "EXIT", "RET" -> isGuarded();
        default -> true;
      };
    }

    /**
     * The predicate registers that it writes: those among its first operands, behind one other
     * register at most.
     */
    Set<String> writes() {
      if (WRITES_NONE.contains(base())) {
        return Set.of();
      }
      if (base().equals("R2P")) {
        return Set.of("P0", "P1", "P2", "P3", "P4", "P5", "P6");
      }
      Set<String> written = new HashSet<>();
      int registers = 0;
      int predicates = 0;
      for (String operand : operands.split(",")) {
        String each = operand.strip();
        if (PREDICATE.matcher(each).matches()) {
          written.add(each);
          predicates++;
        } else if (REGISTER.matcher(each).matches() && registers + predicates == 0) {
          registers++;
        } else {
          break;
        }
        if (predicates == (WRITES_ONE.contains(base()) ? 1 : 2)) {
          break;
        }
      }
      return written;
    }

    @Override
    public String toString() {
      String guard = isGuarded() ? "@" + (negated ? "!" : "") + predicate + " " : "";
      return address + ": " + guard + operation + " " + operands;
    }
  }

  /**
   * A way from one instruction to another.
   *
   * @param from number of the first instruction
   * @param jumps whether its branch is taken
   */
  record Step(int from, boolean jumps) {}

  /** The functions in the output of the disassembler. */
  static List<MachineCode> parse(List<String> lines) {
    List<MachineCode> functions = new ArrayList<>();
    String name = "";
    List<Instruction> instructions = new ArrayList<>();
    Map<String, Integer> labels = new HashMap<>();
    for (String line : lines) {
      if (OTHER_SECTION.matcher(line).find()) {
        add(functions, name, instructions, labels);
        Matcher section = SECTION.matcher(line);
        name = section.find() ? section.group(1) : "";
        instructions = new ArrayList<>();
        labels = new HashMap<>();
        continue;
      }
      Matcher label = LABEL.matcher(line);
      Matcher code = CODE.matcher(line);
      if (label.find()) {
        labels.put(label.group(1), instructions.size());
      } else if (code.find()) {
        instructions.add(
            new Instruction(
                code.group(1),
                code.group(3) == null ? "" : code.group(3),
                "!".equals(code.group(2)),
                code.group(4),
                code.group(5)));
      }
    }
    add(functions, name, instructions, labels);
    return functions;
  }

  private static void add(
      List<MachineCode> functions,
      String name,
      List<Instruction> instructions,
      Map<String, Integer> labels) {
    if (name.isEmpty() || instructions.isEmpty()) {
      return;
    }
    List<List<Step>> before = new ArrayList<>();
    List<List<Integer>> after = new ArrayList<>();
    Map<Integer, Integer> callees = new HashMap<>();
    branchInPlaceOfCallsThatNeverReturn(instructions, labels);
    for (Instruction _ : instructions) {
      before.add(new ArrayList<>());
      after.add(new ArrayList<>());
    }
    for (int i = 0; i < instructions.size(); i++) {
      Instruction each = instructions.get(i);
      Integer target = labels.get(each.target());
      if (target != null && target < instructions.size()) {
        if (each.isCall()) {
          callees.put(i, target);
        } else {
          before.get(target).add(new Step(i, true));
          after.get(i).add(target);
        }
      }
      if (each.mayContinue() && i + 1 < instructions.size()) {
        before.get(i + 1).add(new Step(i, false));
        after.get(i).add(i + 1);
      }
    }
    functions.add(new MachineCode(name, List.copyOf(instructions), before, after, callees));
  }

  /** Code for sm_80 also calls labels of the calling function itself: such a call is a branch. */
  private static void branchInPlaceOfCallsThatNeverReturn(
      List<Instruction> instructions, Map<String, Integer> labels) {
    Map<Integer, Boolean> returning = new HashMap<>();
    for (int i = 0; i < instructions.size(); i++) {
      Instruction call = instructions.get(i);
      Integer target = call.isCall() ? labels.get(call.target()) : null;
      if (target != null
          && !returning.computeIfAbsent(target, first -> returns(instructions, labels, first))) {
        instructions.set(i, call.asBranch());
      }
    }
  }

  /** Whether a return can be reached, if all calls on the way return. */
  private static boolean returns(
      List<Instruction> instructions, Map<String, Integer> labels, int first) {
    BitSet passed = new BitSet();
    Deque<Integer> open = new ArrayDeque<>(List.of(first));
    while (!open.isEmpty()) {
      int at = open.pop();
      if (at >= instructions.size() || passed.get(at)) {
        continue;
      }
      passed.set(at);
      Instruction each = instructions.get(at);
      if (each.base().equals("RET")) {
        return true;
      }
      Integer target = labels.get(each.target());
      if (each.isBranch() && target != null) {
        open.push(target);
      }
      if (each.mayContinue()) {
        open.push(at + 1);
      }
    }
    return false;
  }
}
