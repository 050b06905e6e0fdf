package org.ep4j.cli;

import java.util.Arrays;
import java.util.Comparator;
import java.util.List;
import org.ep4j.error.ErrorCode;

/** The page {@code docs/errors.md}, made from {@link ErrorCode}. */
final class ErrorsDocument {
  /**
   * The sections of {@link ErrorCode}, as the comments in its source name them; a test compares.
   */
  static final List<Section> SECTIONS =
      List.of(
          new Section(1000, 1399, "arguments of the API, groups, memory, wires and files"),
          new Section(
              1400, 1699, "arguments of operations, checked by engines and by the host engine"),
          new Section(1700, 1899, "arguments of CUDA bindings, the CUDA engine and backends"),
          new Section(1900, 1999, "arguments of RDMA and the command line"),
          new Section(
              2000,
              2299,
              "calls that the state of an API object, a group or a wire does not allow"),
          new Section(
              2300, 2599, "calls that the state of a buffer, a handle or a hook does not allow"),
          new Section(
              2600, 2799, "calls that the state of CUDA objects or backends does not allow"),
          new Section(2800, 2999, "calls that the state of RDMA objects does not allow"),
          new Section(3000, 3999, "groups: joining, membership, collectives"),
          new Section(
              4000,
              4999,
              "operations: peers that are late or dead, and failures that peers report"),
          new Section(5000, 5499, "wires between nodes"),
          new Section(5500, 5999, "wires on RDMA verbs and UCX"),
          new Section(6000, 6999, "engines, backends, devices, compilers and native libraries"),
          new Section(7000, 7299, "files"),
          new Section(7300, 7599, "verification and recorded cases"),
          new Section(8000, 8999, "the command line"));

  private static final String INTRODUCTION =
      """
      # Error codes

      Every error message of ep4j begins with a code, `EP4J-1000: …`. The code names the rule or the failure, independent of the words of one message: match the code in programs, logs and alerts. A code never changes its meaning, and the number of a removed code is not used again. In Java, `errorCode()` of an exception and `ErrorCode.of(exception)` return the constant of `org.ep4j.error.ErrorCode`.

      `./ep4j errors CODE` explains one code on the command line. This page is the output of `./ep4j errors --markdown`; change the texts in `ErrorCode.java`.
      """;

  /**
   * A range of numbers.
   *
   * @param first its first number
   * @param last its last number
   * @param title what its errors have in common
   */
  record Section(int first, int last, String title) {
    /** The codes of this section, by number. */
    List<ErrorCode> codes() {
      return Arrays.stream(ErrorCode.values())
          .filter(code -> code.number() >= first && code.number() <= last)
          .sorted(Comparator.comparingInt(ErrorCode::number))
          .toList();
    }

    /** The title as a heading, with the range. */
    String heading() {
      return "%s%s (%d to %d)"
          .formatted(Character.toUpperCase(title.charAt(0)), title.substring(1), first, last);
    }
  }

  private ErrorsDocument() {}

  /** The page: a table for each section that has codes. */
  static String markdown() {
    StringBuilder page = new StringBuilder(INTRODUCTION);
    for (Section section : SECTIONS) {
      List<ErrorCode> codes = section.codes();
      if (!codes.isEmpty()) {
        page.append("\n## ").append(section.heading()).append("\n\n");
        page.append("| code | cause | remedy |\n|---|---|---|\n");
        for (ErrorCode code : codes) {
          page.append(
              "| `%s` | %s | %s |\n".formatted(code, cell(code.cause()), cell(code.remedy())));
        }
      }
    }
    return page.toString();
  }

  private static String cell(String text) {
    return text.replace("|", "\\|");
  }
}
