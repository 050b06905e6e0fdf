package org.ep4j.cli.vectors;

import java.lang.foreign.Arena;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.Collectors;
import org.ep4j.ExpertBuffer;
import org.ep4j.bench.CommandAgreement;
import org.ep4j.cases.CaseComparison;
import org.ep4j.cases.CaseDirectory;
import org.ep4j.cases.CaseFile;
import org.ep4j.cases.CaseRunner;
import org.ep4j.cli.CommandFailure;
import org.ep4j.cli.ExitCodes;
import org.ep4j.cli.launch.NodeOptions;
import org.ep4j.cli.launch.World;
import org.ep4j.cli.text.Progress;
import org.ep4j.cli.text.Style;
import org.ep4j.cli.text.Units;
import org.ep4j.error.ErrorCode;
import org.ep4j.group.Group;
import org.ep4j.verify.Mismatch;

/**
 * Runs cases on the ranks of a world and compares the results. Every rank compares its own outputs;
 * rank 0 reports.
 *
 * @param cases the cases; those for another number of ranks are skipped
 * @param problems directories that are no valid cases, with the reasons
 * @param device the engine
 * @param backend backend between GPUs
 * @param nodes ranks that share memory
 * @param hosting threads or processes, for the report
 */
record CaseVerifier(
    List<CaseDirectory> cases,
    List<String> problems,
    String device,
    String backend,
    NodeOptions nodes,
    String hosting)
    implements World.RankBody {
  @Override
  public int run(Group group, Progress progress) {
    Style style = Style.detect();
    int equal = 0;
    int all = problems.size();
    for (String problem : problems) {
      print(group, progress, "%s  %s\n".formatted(style.bad("BAD  "), problem));
    }
    for (CaseDirectory one : cases) {
      if (one.ranks() == group.size()) {
        all++;
        equal += verify(one, group, progress, style) ? 1 : 0;
      }
    }
    if (all == 0) {
      throw new CommandFailure(
          ErrorCode.WRONG_NUMBER_OF_RANKS,
          ExitCodes.USAGE,
          "no case is for %d ranks: start one of %s ranks"
              .formatted(
                  group.size(), cases.stream().map(CaseDirectory::ranks).distinct().toList()));
    }
    String summary =
        "%d of %d cases equal the recording, bit for bit (%d %s)\n"
            .formatted(equal, all, group.size(), hosting);
    print(group, progress, equal == all ? style.good(summary) : style.bad(summary));
    return equal == all ? ExitCodes.OK : ExitCodes.FAILED;
  }

  private boolean verify(CaseDirectory one, Group group, Progress progress, Style style) {
    long start = System.nanoTime();
    String name = String.valueOf(one.path().getFileName());
    progress.at("verifying " + name);
    List<String> compared = new ArrayList<>();
    String mismatch = compare(one, group, compared);
    List<String> mismatches = new CommandAgreement(group).texts(mismatch);
    String time = Units.micros((System.nanoTime() - start) / 1e3);
    String head =
        mismatches.isEmpty()
            ? "%s  %-16s %s: %s\n"
                .formatted(style.good("ok   "), name, time, String.join(", ", compared))
            : "%s  %-16s\n".formatted(style.bad("WRONG"), name);
    StringBuilder text = new StringBuilder(head);
    mismatches.stream()
        .flatMap(String::lines)
        .forEach(l -> text.append("       ").append(l).append('\n'));
    print(group, progress, text.toString());
    return mismatches.isEmpty();
  }

  /** The mismatches on this rank, one per line; empty if none. */
  private String compare(CaseDirectory one, Group group, List<String> compared) {
    try (Arena arena = Arena.ofShared();
        CaseFile file = one.read(group.rank());
        ExpertBuffer buffer =
            ExpertBuffer.open(
                group,
                nodes
                    .declare(one.config().engine(device).backend(backend), group.size())
                    .build())) {
      CaseComparison comparison =
          CaseComparison.of(group.rank(), file, CaseRunner.run(buffer, file, arena));
      compared.addAll(comparison.compared());
      if (comparison.compared().isEmpty()) {
        return file.name() + ": has no recorded output to compare with";
      }
      return comparison.wrong().stream().map(Mismatch::toString).collect(Collectors.joining("\n"));
    }
  }

  private static void print(Group group, Progress progress, String text) {
    if (group.rank() == 0) {
      progress.above(
          () -> {
            System.out.print(text);
            System.out.flush();
          });
    }
  }
}
