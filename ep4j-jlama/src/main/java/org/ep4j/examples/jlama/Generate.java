package org.ep4j.examples.jlama;

import com.github.tjake.jlama.safetensors.prompt.PromptContext;
import java.nio.file.Path;
import java.time.Duration;
import java.util.UUID;
import org.ep4j.group.Group;
import org.ep4j.jlama.ExpertParallelMixtral;

/**
 * Generates texts with a Mixtral whose experts are spread over the ranks of the launcher: {@code
 * Generate DIRECTORY TOKENS PROMPT…}. Ranks take the prompts in turn; a text has {@code TOKENS}
 * tokens with its prompt.
 */
public final class Generate {
  private Generate() {}

  /** Prints a line for each text of this rank. */
  public static void main(String... arguments) {
    Path directory = Path.of(arguments[0]);
    int tokens = Integer.parseInt(arguments[1]);
    try (Group group = Group.fromEnvironment();
        var model = ExpertParallelMixtral.load(directory, group, Duration.ofMinutes(2))) {
      for (int i = 2 + group.rank(); i < arguments.length; i += group.size()) {
        var prompt = PromptContext.of(arguments[i]);
        var response = model.generate(UUID.randomUUID(), prompt, 0, tokens, (token, millis) -> {});
        System.out.println(arguments[i] + response.responseText);
      }
      model.serve();
    }
  }
}
