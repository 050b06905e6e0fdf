package org.ep4j.nccl.gin;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import org.ep4j.error.ConfigurationMismatchException;
import org.ep4j.error.Ep4jException;
import org.ep4j.error.ErrorCode;
import org.ep4j.group.Group;
import org.ep4j.group.ThreadRanks;
import org.ep4j.memory.Participants;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/**
 * The steps in which ranks open communicators, and how they end. Communicators are records of what
 * happens to them here; {@code NcclGinTest} opens those of NCCL.
 */
@Timeout(60)
class GinCommunicatorsTest {
  private static final Duration LIMIT = Duration.ofSeconds(30);
  private static final int RANKS = 3;

  /** Ten lanes with four contexts in a communicator: three communicators. */
  private static final GinPlan PLAN = GinPlan.of(Map.of(), 10);

  private static GinCommunicators open(Group group, Recorded made) {
    return GinCommunicators.open(Participants.ofAll(group), LIMIT, PLAN, made);
  }

  @Test
  void eachCommunicatorHasItsWindowAndItsIdOnAllRanks() {
    ThreadRanks.run(
        RANKS,
        group -> {
          Recorded made = new Recorded(group, "");
          try (GinCommunicators opened = open(group, made)) {
            assertThat(opened.members()).hasSize(3);
            assertThat(made.events)
                .containsExactly(
                    "connect 0",
                    "create 1 with id 1",
                    "register 1",
                    "connect 1",
                    "create 2 with id 2",
                    "register 2",
                    "connect 2");
            made.events.clear();
          }
          // None waits for another one's end.
          assertThat(made.events)
              .containsExactly(
                  "release 2",
                  "release 1",
                  "release 0",
                  "begin close 2",
                  "begin close 1",
                  "begin close 0",
                  "end close 2",
                  "end close 1",
                  "end close 0");
        });
  }

  /** A step of the first, second or third communicator fails on rank 1. */
  @ParameterizedTest
  @CsvSource({
    "connect 0, the device communicator of GIN, 1",
    "create 1, the connections of communicator 2 of 3 for GIN, 1",
    "register 1, the window of communicator 2 of 3 for GIN, 2",
    "connect 1, the device side of communicator 2 of 3 for GIN, 2",
    "create 2, the connections of communicator 3 of 3 for GIN, 2",
    "register 2, the window of communicator 3 of 3 for GIN, 3",
    "connect 2, the device side of communicator 3 of 3 for GIN, 3",
  })
  void aStepThatFailsOnOneRankFailsOnAllAndAbortsWhatIsOpen(
      String step, String what, int openedOnThatRank) {
    ThreadRanks.run(
        RANKS,
        group -> {
          boolean fails = group.rank() == 1;
          Recorded made = new Recorded(group, fails ? step : "");
          assertThatThrownBy(() -> open(group, made))
              .isInstanceOf(Ep4jException.class)
              .hasMessageStartingWith(ErrorCode.NCCL_CALL_FAILED.id() + ": rank 1: " + what)
              .hasMessageContaining("the port is down");
          int opened = openedOnThatRank + (!fails && step.startsWith("create") ? 1 : 0);
          for (int i = 0; i < opened; i++) {
            List<String> ends = made.of(i);
            assertThat(ends.subList(ends.indexOf("abandon " + i), ends.size()))
                .containsExactly(
                    "abandon " + i, "release " + i, "begin close " + i, "end close " + i);
          }
          assertThat(made.of(opened)).filteredOn(each -> !each.startsWith("create")).isEmpty();
        });
  }

  @Test
  void differentNumbersOfContextsAreReportedOnAllRanks() {
    ThreadRanks.run(
        RANKS,
        group -> {
          Recorded made = new Recorded(group, "");
          made.contexts = group.rank() == 2 ? 3 : 4;
          assertThatThrownBy(() -> open(group, made))
              .isInstanceOf(ConfigurationMismatchException.class)
              .hasMessageStartingWith(ErrorCode.NCCL_CONTEXTS_DIFFER.id())
              .hasMessageContaining("4 contexts on rank 0 and 3 on rank 2")
              .hasMessageContaining("NCCL_GIN_NCONTEXTS");
          assertThat(made.of(0)).endsWith("release 0", "begin close 0", "end close 0");
        });
  }

  /** The communicators of a rank, of which one step fails. */
  private static final class Recorded implements GinCommunicators.Factory {
    private final List<String> events = Collections.synchronizedList(new ArrayList<>());
    private final Group group;
    private final String fails;
    private long contexts = 4;
    private int ids;
    private int members;

    Recorded(Group group, String fails) {
      this.group = group;
      this.fails = fails;
    }

    void happens(String event) {
      events.add(event);
      if (!fails.isEmpty() && event.startsWith(fails)) {
        throw new Ep4jException(ErrorCode.NCCL_CALL_FAILED, "the port is down");
      }
    }

    /** The events of a communicator. */
    List<String> of(int number) {
      return events.stream()
          .filter(each -> each.replace(" with id", "").matches("[a-z ]+ " + number + "( .*)?"))
          .toList();
    }

    @Override
    public Member first() {
      return new Member(members++);
    }

    /** Only rank 0 makes ids: those of other ranks are other communicators. */
    @Override
    public byte[] newId() {
      byte[] id = new byte[128];
      id[id.length - 1] = (byte) (++ids + 100 * group.rank());
      return id;
    }

    @Override
    public Member create(byte[] id) {
      happens("create " + members + " with id " + id[id.length - 1]);
      return new Member(members++);
    }

    private final class Member implements GinCommunicators.Member {
      private final int number;

      Member(int number) {
        this.number = number;
      }

      @Override
      public void register() {
        happens("register " + number);
      }

      @Override
      public void connect() {
        happens("connect " + number);
      }

      @Override
      public long contexts() {
        return contexts;
      }

      @Override
      public void release() {
        happens("release " + number);
      }

      @Override
      public void abandon() {
        happens("abandon " + number);
      }

      @Override
      public void beginClose() {
        happens("begin close " + number);
      }

      @Override
      public void endClose() {
        happens("end close " + number);
      }
    }
  }
}
