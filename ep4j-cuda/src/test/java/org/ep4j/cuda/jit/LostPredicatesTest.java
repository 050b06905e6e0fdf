package org.ep4j.cuda.jit;

import static org.assertj.core.api.Assertions.assertThat;

import java.util.ArrayList;
import java.util.List;
import java.util.function.IntFunction;
import org.junit.jupiter.api.Test;

class LostPredicatesTest {
  private static final String LANE = "ISETP.NE.AND P0, PT, R9, RZ, PT";
  private static final String AGAIN = "ISETP.GE.U32.AND P0, PT, R3, R4, PT";

  @Test
  void aGuardWhosePredicateWasWrittenForItIsKept() {
    assertThat(lost(LANE, "@P0 BRA `(.L_x_1)", "STS.64 [R11], R6", ".L_x_1", "EXIT")).isEmpty();
  }

  /** A loop, then a branch of one lane: the comparison of the lane is missing. */
  @Test
  void aGuardThatTestsTheEndOfALoopIsFound() {
    assertThat(
            lost(
                ".L_x_1",
                "IADD3 R3, R3, 0x1, RZ",
                AGAIN,
                "@!P0 BRA `(.L_x_1)",
                "BRA.DIV UR5, `(.L_x_3)",
                "@P0 BRA `(.L_x_2)",
                "STS.64 [R11], R6",
                ".L_x_2",
                "EXIT",
                ".L_x_3",
                "NOP"))
        .singleElement()
        .asString()
        .contains("0040: @P0 BRA", "branches before have tested it");
  }

  @Test
  void theSameWithTheComparisonIsKept() {
    assertThat(
            lost(
                ".L_x_1",
                AGAIN,
                "@!P0 BRA `(.L_x_1)",
                LANE,
                "@P0 BRA `(.L_x_2)",
                "STS.64 [R11], R6",
                ".L_x_2",
                "EXIT"))
        .isEmpty();
  }

  @Test
  void anInstructionThatIsNoBranchIsFoundToo() {
    assertThat(lost(LANE, "@!P0 BRA `(.L_x_1)", "@!P0 CCTL.IVALL", ".L_x_1", "EXIT"))
        .singleElement()
        .asString()
        .contains("@!P0 CCTL.IVALL");
  }

  /** Where both ways of a branch meet, its predicate may be tested again. */
  @Test
  void theSameConditionTwiceIsKept() {
    assertThat(
            lost(
                LANE,
                "@P0 BRA `(.L_x_1)",
                "STS.64 [R11], R6",
                ".L_x_1",
                "BAR.SYNC.DEFER_BLOCKING 0x0",
                "@P0 BRA `(.L_x_2)",
                "STS.64 [R12], R6",
                ".L_x_2",
                "EXIT"))
        .isEmpty();
  }

  /** {@code some = some && more()}, then {@code if (some)}. */
  @Test
  void aConditionOfTwoPartsIsKept() {
    assertThat(
            lost(
                "VOTE.ALL P0, P1",
                "@!P0 BRA `(.L_x_1)",
                AGAIN,
                ".L_x_1",
                "@!P0 BRA `(.L_x_2)",
                "STS.64 [R11], R6",
                ".L_x_2",
                "EXIT"))
        .isEmpty();
  }

  @Test
  void aGuardThatManyInstructionsWriteIsFound() {
    assertThat(lostAfter(8, i -> "IADD3 R" + i + ", P1, R8, R9, RZ"))
        .singleElement()
        .asString()
        .contains("@P1 BRA", "8 instructions write it");
    assertThat(lostAfter(7, i -> "IADD3 R" + i + ", P1, R8, R9, RZ")).isEmpty();
  }

  /** {@code if (there) set}, other code, {@code if (there) and if (set)}. */
  @Test
  void infeasiblePathsDoNotCount() {
    assertThat(lostAfter(9, "@!P4 BRA `(.L_x_set)", "@!P4 BRA `(.L_x_out)")).isEmpty();
    assertThat(lostAfter(9, "@!P4 BRA `(.L_x_set)", "@P4 BRA `(.L_x_out)"))
        .singleElement()
        .asString()
        .contains("@P1 BRA", "instructions write it");
  }

  @Test
  void aGuardWhosePredicateACalledFunctionWritesIsFound() {
    assertThat(
            lost(
                "ISETP.NE.AND P1, PT, R9, RZ, PT",
                "CALL.REL.NOINC `(.L_x_division)",
                "@P1 BRA `(.L_x_out)",
                "STS.64 [R11], R6",
                ".L_x_out",
                "EXIT",
                ".L_x_division",
                "IADD3 R3, P1, R8, R9, RZ",
                "RET.REL.NODEC R68"))
        .singleElement()
        .asString()
        .contains("@P1 BRA", "a function that is called writes it");
  }

  /** What it calls writes the predicate, but never comes back to the guard. */
  @Test
  void aCallThatNeverReturnsIsABranch() {
    assertThat(
            lost(
                LANE,
                "ISETP.NE.AND P2, PT, R8, RZ, PT",
                "@P2 CALL.REL.NOINC `(.L_x_carry)",
                "@P0 BRA `(.L_x_out)",
                "STS.64 [R11], R6",
                ".L_x_out",
                "EXIT",
                ".L_x_carry",
                "IADD3 R3, P0, R8, R9, RZ",
                "EXIT"))
        .isEmpty();
  }

  @Test
  void aCallThatNeverReturnsMayHaveLostItsOwnPredicate() {
    assertThat(
            lost(
                LANE,
                "@!P0 BRA `(.L_x_out)",
                "@P0 CALL.REL.NOINC `(.L_x_out)",
                "STS.64 [R11], R6",
                ".L_x_out",
                "EXIT"))
        .singleElement()
        .asString()
        .contains("branches before have tested it");
  }

  @Test
  void aGuardWhosePredicateNoInstructionWritesIsFound() {
    assertThat(lost("@P3 BRA `(.L_x_out)", "STS.64 [R11], R6", ".L_x_out", "EXIT"))
        .singleElement()
        .asString()
        .contains("no instruction writes it");
  }

  /** The assembler repeats cheap comparisons instead of keeping their predicates. */
  @Test
  void repeatedComparisonsCountOnce() {
    assertThat(lostAfter(12, i -> "ISETP.NE.AND P1, PT, R9, RZ, PT")).isEmpty();
  }

  /** One of some carries, then a comparison of the lane and a test of it behind two branches. */
  private static List<String> lostAfter(int writers, String aroundComparison, String aroundTest) {
    List<String> code = oneOf(writers, i -> "IADD3 R" + i + ", P1, R8, R9, RZ");
    code.addAll(
        List.of(
            "EXIT",
            ".L_x_end",
            "ISETP.NE.AND P4, PT, R30, RZ, PT",
            aroundComparison,
            "ISETP.NE.AND P1, PT, R31, RZ, PT",
            ".L_x_set",
            aroundTest,
            "@P1 BRA `(.L_x_out)",
            "STS.64 [R11], R6",
            ".L_x_out",
            "EXIT"));
    return lost(code.toArray(String[]::new));
  }

  /** A branch that one of some instructions comes before. */
  private static List<String> lostAfter(int writers, IntFunction<String> writer) {
    List<String> code = oneOf(writers, writer);
    code.addAll(
        List.of("EXIT", ".L_x_end", "@P1 BRA `(.L_x_out)", "STS.64 [R11], R6", ".L_x_out", "EXIT"));
    return lost(code.toArray(String[]::new));
  }

  private static List<String> oneOf(int writers, IntFunction<String> writer) {
    List<String> code = new ArrayList<>();
    for (int i = 0; i < writers; i++) {
      code.add("ISETP.NE.AND P6, PT, R" + i + ", RZ, PT");
      code.add("@P6 BRA `(.L_x_" + i + ")");
      code.add(writer.apply(i));
      code.add("BRA `(.L_x_end)");
      code.add(".L_x_" + i);
    }
    return code;
  }

  /** Lines of a function: labels, and instructions without their addresses. */
  private static List<String> lost(String... lines) {
    List<String> listing = new ArrayList<>(List.of("\t.section\t.text.kernel,\"ax\",@progbits"));
    int address = 0;
    for (String line : lines) {
      if (line.startsWith(".L")) {
        listing.add(line + ":");
      } else {
        listing.add("        /*%04x*/          %s ;".formatted(address, line));
        address += 16;
      }
    }
    List<MachineCode> functions = MachineCode.parse(listing);
    assertThat(functions).hasSize(1);
    return LostPredicates.in(functions.getFirst());
  }
}
