package org.ep4j.cli.doctor;

import java.io.PrintWriter;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.concurrent.Callable;
import java.util.stream.Collectors;
import org.ep4j.cli.Build;
import org.ep4j.cli.CommandSpecs;
import org.ep4j.cli.ExitCodes;
import org.ep4j.cli.text.Json;
import org.ep4j.cli.text.Style;
import org.ep4j.cli.text.Table;
import org.ep4j.cli.text.Wrapped;
import org.ep4j.rdma.verbs.ports.RdmaPorts;
import org.jspecify.annotations.Nullable;
import picocli.CommandLine.Command;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.Spec;

/** Reports the hardware, libraries and settings of this machine. */
@Command(
    name = "doctor",
    description =
        "Report what this machine has, what is missing, the consequences, each setting, and a"
            + " verdict.")
public final class DoctorCommand implements Callable<Integer> {
  private static final int NAME_WIDTH = 31;

  /** Width of a mark with the blanks around it. */
  private static final int MARK_WIDTH = 6;

  private static final int TEXT_WIDTH = Table.WIDTH - MARK_WIDTH - NAME_WIDTH;

  /** A longer text is not printed twice. */
  private static final int LONG = TEXT_WIDTH;

  @Option(names = "--json", description = "Print JSON instead of text.")
  private boolean json;

  @Spec private @Nullable CommandSpec spec;

  /** Used by picocli. */
  public DoctorCommand() {}

  @Override
  public Integer call() {
    List<Finding> findings = look(System.getenv());
    PrintWriter out = CommandSpecs.require(spec).commandLine().getOut();
    out.print(json ? Json.text(tree(findings)) : text(findings, Style.detect()));
    out.flush();
    return ExitCodes.OK;
  }

  static List<Finding> look(Map<String, String> environment) {
    Libraries libraries = new Libraries(environment);
    List<Finding> findings = new ArrayList<>();
    findings.addAll(JdkFacts.look());
    findings.addAll(CpuFacts.look());
    findings.addAll(MemoryFacts.look(environment));
    findings.addAll(EngineFacts.look());
    findings.addAll(GpuFacts.look());
    findings.addAll(BackendFacts.look(System.getProperties(), environment));
    findings.addAll(NetworkFacts.look(libraries));
    findings.addAll(WireFacts.look(environment));
    findings.addAll(StatusFacts.look());
    findings.addAll(SettingFacts.look(environment));
    findings.addAll(RdmaFacts.settings(environment, RdmaPorts.discover(), RdmaFacts.senders()));
    findings.addAll(Verdict.of(findings));
    return findings;
  }

  private static Map<String, Object> tree(List<Finding> findings) {
    List<Map<String, Object>> items = new ArrayList<>();
    for (Finding finding : findings) {
      Map<String, Object> item = new LinkedHashMap<>();
      item.put("topic", finding.topic());
      item.put("name", finding.name());
      item.put("state", finding.state().name().toLowerCase(Locale.ROOT));
      item.put("value", finding.value());
      item.put("meaning", finding.meaning());
      items.add(item);
    }
    Map<String, Object> tree = new LinkedHashMap<>();
    tree.put("ep4j", Build.version());
    tree.put("findings", items);
    return tree;
  }

  static String text(List<Finding> findings, Style style) {
    StringBuilder text = new StringBuilder();
    String topic = "";
    Map<String, String> printed = new HashMap<>();
    for (Finding finding : findings) {
      if (!finding.topic().equals(topic)) {
        topic = finding.topic();
        text.append(text.isEmpty() ? "" : "\n").append(style.bold(topic)).append('\n');
      }
      String mark =
          switch (finding.state()) {
            case FOUND -> style.good("ok");
            case MISSING -> style.faint("--");
            case WARNING -> style.warning("!!");
          };
      String name = finding.name();
      text.append("  ").append(mark).append("  ").append(name);
      text.append(" ".repeat(Math.max(1, NAME_WIDTH - name.length())));
      text.append(wrapped(finding.value(), Style.PLAIN)).append('\n');
      String meaning = finding.meaning();
      if (!meaning.isEmpty()) {
        String first = printed.get(meaning);
        if (first == null && meaning.length() > LONG) {
          printed.put(meaning, finding.topic() + ": " + name);
        }
        text.append(" ".repeat(NAME_WIDTH + MARK_WIDTH));
        text.append(wrapped(first == null ? meaning : "for the same reason as " + first, style))
            .append('\n');
      }
    }
    return text.toString();
  }

  /** The text in lines below each other, to the right of the names. */
  private static String wrapped(String text, Style style) {
    return Wrapped.lines(text, TEXT_WIDTH)
        .lines()
        .map(style::faint)
        .collect(Collectors.joining("\n" + " ".repeat(NAME_WIDTH + MARK_WIDTH)));
  }
}
