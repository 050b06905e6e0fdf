package org.ep4j.jlama;

import com.github.tjake.jlama.model.functions.Generator;
import com.github.tjake.jlama.safetensors.Config;
import com.github.tjake.jlama.safetensors.prompt.PromptContext;
import com.github.tjake.jlama.safetensors.prompt.PromptSupport;
import dev.langchain4j.data.message.AiMessage;
import dev.langchain4j.data.message.ChatMessage;
import dev.langchain4j.data.message.Content;
import dev.langchain4j.data.message.SystemMessage;
import dev.langchain4j.data.message.TextContent;
import dev.langchain4j.data.message.UserMessage;
import dev.langchain4j.exception.UnsupportedFeatureException;
import dev.langchain4j.model.chat.ChatModel;
import dev.langchain4j.model.chat.request.ChatRequest;
import dev.langchain4j.model.chat.request.ChatRequestParameters;
import dev.langchain4j.model.chat.request.ResponseFormatType;
import dev.langchain4j.model.chat.response.ChatResponse;
import dev.langchain4j.model.output.FinishReason;
import dev.langchain4j.model.output.TokenUsage;
import java.util.List;
import java.util.stream.Collectors;
import org.ep4j.error.ErrorCode;
import org.ep4j.error.InvalidArgumentException;

/**
 * A model of LangChain4j over {@link ExpertParallelMixtral}. Each chat is generated anew from all
 * its messages. The checkpoint's chat template makes the prompt; without a template, a chat is one
 * message of the user, which is the prompt.
 *
 * <p>Temperature and {@code maxOutputTokens} of a request count. Other parameters, tools, images
 * and JSON are refused with {@link UnsupportedFeatureException}.
 *
 * <p>A rank without chats calls {@link ExpertParallelMixtral#serve()}, and so does each rank after
 * its last chat. Thread rule: as for the model, one thread per rank.
 */
public final class MixtralChatModel implements ChatModel {
  private final ExpertParallelMixtral model;
  private final int maxOutputTokens;

  /**
   * @param model of this rank; stays open
   * @param maxOutputTokens tokens of an answer at most, if a request does not say otherwise; an
   *     answer also ends where the context of the model does
   */
  public MixtralChatModel(ExpertParallelMixtral model, int maxOutputTokens) {
    if (maxOutputTokens < 1) {
      throw new InvalidArgumentException(
          ErrorCode.CHAT_REQUEST,
          "maxOutputTokens",
          String.valueOf(maxOutputTokens),
          ">= 1",
          "pass the number of tokens that an answer may have");
    }
    this.model = model;
    this.maxOutputTokens = maxOutputTokens;
  }

  @Override
  public ChatRequestParameters defaultRequestParameters() {
    return ChatRequestParameters.builder()
        .temperature(0.0)
        .maxOutputTokens(maxOutputTokens)
        .build();
  }

  @Override
  public ChatResponse doChat(ChatRequest request) {
    checkParameters(request.parameters());
    PromptContext prompt = prompt(request.messages());
    Generator.Response response =
        model.generateOnce(
            prompt,
            request.temperature().floatValue(),
            (int) Math.min(length(prompt) + request.maxOutputTokens(), context()));
    return ChatResponse.builder()
        .aiMessage(AiMessage.from(response.responseText))
        .tokenUsage(new TokenUsage(response.promptTokens, response.generatedTokens))
        .finishReason(reason(response.finishReason))
        .build();
  }

  /**
   * Tokens of a text at most. Jlama 0.8.4 turns the n-th head of the keys as if it were 2n
   * positions further on, and has the positions of the context alone.
   */
  private int context() {
    Config config = model.getConfig();
    return config.contextLength - 2 * (config.numberOfKeyValueHeads - 1);
  }

  /** Tokens of a prompt. Jlama begins it with the token of the beginning if it has none. */
  private long length(PromptContext prompt) {
    long[] tokens = model.getTokenizer().encode(prompt.getPrompt());
    boolean begins = tokens.length > 0 && tokens[0] == model.getConfig().bosToken;
    return tokens.length + (begins ? 0L : 1L);
  }

  private static FinishReason reason(Generator.FinishReason reason) {
    return switch (reason) {
      case MAX_TOKENS -> FinishReason.LENGTH;
      case STOP_TOKEN -> FinishReason.STOP;
      case TOOL_CALL -> FinishReason.TOOL_EXECUTION;
      case ERROR -> FinishReason.OTHER;
    };
  }

  private static void checkParameters(ChatRequestParameters parameters) {
    refuseIf(parameters.maxOutputTokens() < 1, "maxOutputTokens below 1");
    refuseIf(parameters.topP() != null, "topP");
    refuseIf(parameters.topK() != null, "topK");
    refuseIf(parameters.frequencyPenalty() != null, "frequencyPenalty");
    refuseIf(parameters.presencePenalty() != null, "presencePenalty");
    refuseIf(parameters.modelName() != null, "modelName");
    refuseIf(parameters.toolChoice() != null, "toolChoice");
    refuseIf(!parameters.stopSequences().isEmpty(), "stopSequences");
    refuseIf(!parameters.toolSpecifications().isEmpty(), "toolSpecifications");
    var format = parameters.responseFormat();
    refuseIf(format != null && format.type() != ResponseFormatType.TEXT, "responseFormat");
  }

  private static void refuseIf(boolean given, String parameter) {
    if (given) {
      throw refused("parameter " + parameter);
    }
  }

  private static UnsupportedFeatureException refused(String what) {
    return new UnsupportedFeatureException(
        ErrorCode.CHAT_REQUEST.message(what + " is not supported: leave it out of the request"));
  }

  private PromptContext prompt(List<ChatMessage> messages) {
    if (model.promptSupport().isEmpty()) {
      if (messages.size() == 1 && messages.getFirst() instanceof UserMessage user) {
        return PromptContext.of(text(user));
      }
      throw refused(
          "a conversation of %d messages without a chat template in the checkpoint"
              .formatted(messages.size()));
    }
    PromptSupport.Builder builder = model.promptSupport().get().builder();
    for (ChatMessage message : messages) {
      switch (message) {
        case SystemMessage system -> builder.addSystemMessage(system.text());
        case UserMessage user -> builder.addUserMessage(text(user));
        case AiMessage ai when !ai.hasToolExecutionRequests() ->
            builder.addAssistantMessage(ai.text());
        default -> throw refused("a message of type " + message.type());
      }
    }
    return builder.addGenerationPrompt(true).build();
  }

  private static String text(UserMessage message) {
    return message.contents().stream()
        .map(MixtralChatModel::text)
        .collect(Collectors.joining("\n"));
  }

  private static String text(Content content) {
    if (content instanceof TextContent text) {
      return text.text();
    }
    throw refused("content of type " + content.type());
  }
}
