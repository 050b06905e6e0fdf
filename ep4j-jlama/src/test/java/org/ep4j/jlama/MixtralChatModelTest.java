package org.ep4j.jlama;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import com.github.tjake.jlama.model.AbstractModel;
import com.github.tjake.jlama.safetensors.prompt.PromptContext;
import com.github.tjake.jlama.tensor.KvBufferCache;
import dev.langchain4j.agent.tool.ToolSpecification;
import dev.langchain4j.data.message.AiMessage;
import dev.langchain4j.data.message.ImageContent;
import dev.langchain4j.data.message.UserMessage;
import dev.langchain4j.exception.UnsupportedFeatureException;
import dev.langchain4j.model.chat.ChatModel;
import dev.langchain4j.model.chat.request.ChatRequest;
import dev.langchain4j.model.chat.response.ChatResponse;
import dev.langchain4j.model.output.FinishReason;
import java.io.IOException;
import java.lang.reflect.Field;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.UUID;
import org.ep4j.error.InvalidArgumentException;
import org.ep4j.group.ThreadRanks;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class MixtralChatModelTest {
  private static final Duration TIMEOUT = Duration.ofSeconds(30);
  private static final int OUTPUT = 7;

  @TempDir static Path directory;

  @BeforeAll
  static void write() throws IOException {
    TinyMixtral.random(1).write(directory);
  }

  /** Rank 0 chats, rank 1 serves. */
  @Test
  void chatsGiveTheTextsOfTheModel() {
    ThreadRanks.run(
        2,
        group -> {
          try (var model = ExpertParallelMixtral.load(directory, group, TIMEOUT)) {
            if (group.rank() == 0) {
              var chat = new MixtralChatModel(model, OUTPUT);
              for (String prompt : List.of("AB", "abc")) {
                ChatResponse response = chat.chat(UserMessage.from(prompt));
                var expected =
                    model.generate(
                        UUID.randomUUID(),
                        PromptContext.of(prompt),
                        0,
                        prompt.length() + 1 + OUTPUT,
                        (token, millis) -> {});
                assertThat(response.aiMessage().text()).isEqualTo(expected.responseText);
                assertThat(response.tokenUsage().outputTokenCount())
                    .isEqualTo(expected.generatedTokens)
                    .isEqualTo(OUTPUT);
                assertThat(response.finishReason()).isEqualTo(FinishReason.LENGTH);
              }
              assertThat(
                      chat.chat(request().maxOutputTokens(3).build())
                          .tokenUsage()
                          .outputTokenCount())
                  .isEqualTo(3);
              assertThat(chat.chat("T")).isNotEmpty();
            }
            model.serve();
          }
        });
  }

  @Test
  void chatsLeaveNoSessionAndThoseOfTheCallerAlone() {
    ThreadRanks.run(
        1,
        group -> {
          try (var model = ExpertParallelMixtral.load(directory, group, TIMEOUT)) {
            var chat = new MixtralChatModel(model, OUTPUT);
            String first = chat.chat("AB");
            assertThat(sessions(model)).isEmpty();
            var session = UUID.randomUUID();
            model.generate(session, PromptContext.of("T"), 0, 5, (token, millis) -> {});
            for (int i = 0; i < 2; i++) {
              assertThat(chat.chat("AB")).isEqualTo(first);
            }
            assertThat(sessions(model)).isEqualTo(Set.of(session));
          }
        });
  }

  /** Texts whose keys and values are in memory. */
  private static Set<?> sessions(ExpertParallelMixtral model) throws ReflectiveOperationException {
    Field ofModel = AbstractModel.class.getDeclaredField("kvBufferCache");
    Field ofCache = KvBufferCache.class.getDeclaredField("kvBufferCache");
    ofModel.setAccessible(true);
    ofCache.setAccessible(true);
    return ((Map<?, ?>) ofCache.get(ofModel.get(model))).keySet();
  }

  @Test
  void anAnswerEndsWithTheContext() {
    ThreadRanks.run(
        1,
        group -> {
          try (var model = ExpertParallelMixtral.load(directory, group, TIMEOUT)) {
            ChatResponse response =
                new MixtralChatModel(model, Integer.MAX_VALUE).chat(UserMessage.from("AB"));
            assertThat(response.finishReason()).isEqualTo(FinishReason.LENGTH);
            // Behind the token of the beginning and two of the prompt; Jlama lacks two positions.
            assertThat(response.tokenUsage().outputTokenCount())
                .isEqualTo(TinyMixtral.CONTEXT - 3 - 2);
          }
        });
  }

  @Test
  void whatTheModelCannotDoIsRefused() {
    ThreadRanks.run(
        1,
        group -> {
          try (var model = ExpertParallelMixtral.load(directory, group, TIMEOUT)) {
            var chat = new MixtralChatModel(model, OUTPUT);
            assertThatThrownBy(() -> new MixtralChatModel(model, 0))
                .isInstanceOf(InvalidArgumentException.class)
                .hasMessageContainingAll("EP4J-1064", "maxOutputTokens");
            refused(chat, request().maxOutputTokens(0), "parameter maxOutputTokens below 1");
            refused(chat, request().topP(.5), "parameter topP");
            refused(chat, request().stopSequences(List.of("a")), "parameter stopSequences");
            var tool = ToolSpecification.builder().name("t").build();
            refused(chat, request().toolSpecifications(tool), "parameter toolSpecifications");
            refused(
                chat,
                ChatRequest.builder()
                    .messages(UserMessage.from("A"), AiMessage.from("B"), UserMessage.from("C")),
                "a conversation of 3 messages without a chat template");
            refused(
                chat,
                ChatRequest.builder()
                    .messages(UserMessage.from(ImageContent.from("http://localhost/a.png"))),
                "content of type IMAGE");
          }
        });
  }

  private static ChatRequest.Builder request() {
    return ChatRequest.builder().messages(UserMessage.from("AB"));
  }

  private static void refused(ChatModel chat, ChatRequest.Builder request, String text) {
    assertThatThrownBy(() -> chat.chat(request.build()))
        .isInstanceOf(UnsupportedFeatureException.class)
        .hasMessageContainingAll("EP4J-1064", text);
  }
}
