package org.ep4j.cli;

import java.lang.reflect.Field;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import picocli.CommandLine;
import picocli.CommandLine.Help;
import picocli.CommandLine.Model.OptionSpec;
import picocli.CommandLine.Model.UsageMessageSpec;

/** The help of a command: its options in groups, then its examples. */
final class HelpText {
  /** Examples by qualified name of the command. */
  static final Map<String, List<String>> EXAMPLES =
      Map.ofEntries(
          Map.entry(
              "ep4j", List.of("ep4j doctor", "ep4j bench", "ep4j launch -n 2 -- ./program --flag")),
          Map.entry(
              "ep4j bench",
              List.of(
                  "ep4j bench",
                  "ep4j bench ht --tokens 4096 --dtype fp8 --json ht.json",
                  "ep4j bench ht --html ht.html",
                  "ep4j bench all --device host --trace trace.json",
                  "ep4j bench ll --ranks 2 --tokens 128 --hook",
                  "ep4j bench ht --nodes 2 --ranks-per-node 2 --wire tcp",
                  "ep4j launch -n 2 -- ep4j bench ht --join")),
          Map.entry(
              "ep4j bench nvlink",
              List.of("ep4j bench nvlink", "ep4j bench nvlink --gpus 2 --sms 8,16")),
          Map.entry(
              "ep4j bench proxy",
              List.of("ep4j bench proxy --threads 1,2 --batch 1 --json p.json")),
          Map.entry(
              "ep4j bench moe",
              List.of(
                  "ep4j bench moe",
                  "ep4j bench moe --ranks 4 --tokens 64 --hidden 2048 --experts 64 --topk 8")),
          Map.entry(
              "ep4j bench put",
              List.of("ep4j bench put --backend direct,nccl", "ep4j bench put --sizes 1024,65536")),
          Map.entry(
              "ep4j bench wire",
              List.of("ep4j bench wire --threads", "ep4j bench wire --wire tcp --lanes 1,4")),
          Map.entry(
              "ep4j report",
              List.of(
                  "ep4j report ht.json",
                  "ep4j report before.json after.json --output r.html",
                  "ep4j report rank0.jfr rank1.jfr")),
          Map.entry(
              "ep4j run",
              List.of(
                  "ep4j run --input case --output result",
                  "ep4j run --input case --output result --kind ht --experts 64")),
          Map.entry(
              "ep4j verify",
              List.of("ep4j verify --vectors result", "ep4j verify --vectors cases --kind ll")),
          Map.entry(
              "ep4j vectors",
              List.of("ep4j vectors --output cases", "ep4j vectors --output cases --ranks 8")),
          Map.entry(
              "ep4j plan",
              List.of(
                  "ep4j plan --machine h100-cx7 --ranks 64 --html plan.html",
                  "ep4j plan --machine h800-cx7 --kind ll --ranks 32 --json plan.json",
                  "ep4j plan --machine h200 --routing zipf --balance --placement-out p.json",
                  "ep4j plan --machine h100-cx7 --ranks 64 --simulate --slow-nic 9:0.5",
                  "ep4j plan --machine h100-cx7 --profile",
                  "ep4j plan --machine h200 --fit run.json --profile")),
          Map.entry(
              "ep4j top", List.of("ep4j top", "ep4j top --rendezvous node1:29500 --json top.json")),
          Map.entry(
              "ep4j launch",
              List.of(
                  "ep4j launch -n 4 -- ./program --flag",
                  "ep4j launch -n 2 --java -- -cp app.jar my.Main",
                  "ep4j launch -n 4 --restart 2 --timeout 600 -- ./program",
                  "ep4j launch -n 4 --hosts 2 -- ./program")),
          Map.entry("ep4j doctor", List.of("ep4j doctor", "ep4j doctor --json")),
          Map.entry("ep4j cache", List.of("ep4j cache list", "ep4j cache warm --arch sm_90a")),
          Map.entry("ep4j cache list", List.of("ep4j cache list")),
          Map.entry(
              "ep4j cache warm",
              List.of("ep4j cache warm --arch sm_90a", "ep4j cache warm --ranks 8 --hidden 7168")),
          Map.entry("ep4j cache clear", List.of("ep4j cache clear")),
          Map.entry("ep4j bundle", List.of("ep4j bundle --output ep4j.tar.xz --no-tests")),
          Map.entry("ep4j python", List.of("ep4j python")),
          Map.entry("ep4j docs", List.of("ep4j docs --output site")),
          Map.entry("ep4j completion", List.of("ep4j completion bash")),
          Map.entry("ep4j errors", List.of("ep4j errors", "ep4j errors EP4J-1907")),
          Map.entry("ep4j version", List.of("ep4j version")));

  private static final String OTHERS = "Options";

  private HelpText() {}

  /** Sets the help of a command. */
  static void configure(CommandLine line) {
    UsageMessageSpec usage = line.getCommandSpec().usageMessage();
    usage.exitCodeList(ExitCodes.meanings());
    usage.footerHeading("%nExamples:%n");
    usage.footer(
        EXAMPLES.getOrDefault(line.getCommandSpec().qualifiedName(), List.of()).stream()
            .map("  "::concat)
            .toArray(String[]::new));
    line.getHelpSectionMap().remove(UsageMessageSpec.SECTION_KEY_OPTION_LIST_HEADING);
    line.getHelpSectionMap().put(UsageMessageSpec.SECTION_KEY_OPTION_LIST, HelpText::options);
  }

  /** The options under their headings; those without one come last. */
  private static String options(Help help) {
    Map<String, List<OptionSpec>> groups = new LinkedHashMap<>();
    for (OptionSpec option : help.commandSpec().options()) {
      if (!option.hidden()) {
        groups.computeIfAbsent(group(option), _ -> new ArrayList<>()).add(option);
      }
    }
    List<OptionSpec> others = groups.remove(OTHERS);
    if (others != null) {
      groups.put(groups.isEmpty() ? OTHERS : "Other options", others);
    }
    StringBuilder text = new StringBuilder();
    groups.forEach(
        (heading, options) -> {
          Help.Layout layout = help.createDefaultLayout(options, List.of(), help.colorScheme());
          layout.addOptions(options, help.parameterLabelRenderer());
          text.append(String.format("%n%s:%n", heading)).append(layout);
        });
    return text.toString();
  }

  private static String group(OptionSpec option) {
    if (option.userObject() instanceof Field field) {
      HelpGroup own = field.getAnnotation(HelpGroup.class);
      HelpGroup ofClass = declaring(field).getAnnotation(HelpGroup.class);
      return own != null ? own.value() : ofClass != null ? ofClass.value() : OTHERS;
    }
    return OTHERS;
  }

  /** The class of the field; of a group of exclusive options the class around it. */
  private static Class<?> declaring(Field field) {
    Class<?> owner = field.getDeclaringClass();
    return owner.getEnclosingClass() == null ? owner : owner.getEnclosingClass();
  }
}
