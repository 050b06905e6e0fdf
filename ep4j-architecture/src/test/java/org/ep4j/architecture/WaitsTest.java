package org.ep4j.architecture;

import static com.tngtech.archunit.lang.syntax.ArchRuleDefinition.noClasses;

import com.tngtech.archunit.base.DescribedPredicate;
import com.tngtech.archunit.core.domain.AccessTarget.CodeUnitAccessTarget;
import com.tngtech.archunit.core.domain.JavaAccess;
import java.util.List;
import java.util.Map;
import java.util.concurrent.BlockingDeque;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionService;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.CyclicBarrier;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Future;
import java.util.concurrent.Phaser;
import java.util.concurrent.Semaphore;
import java.util.concurrent.locks.Condition;
import java.util.concurrent.locks.LockSupport;
import org.junit.jupiter.api.Test;

/** Rule 6: every wait has a deadline. */
class WaitsTest {
  /** A method of the JDK that, in the form without a time limit, may wait forever. */
  private record Wait(Class<?> owner, String name, int parameters) {}

  private static final List<Wait> ENDLESS =
      List.of(
          new Wait(Object.class, "wait", 0),
          new Wait(Thread.class, "join", 0),
          new Wait(Process.class, "waitFor", 0),
          new Wait(Future.class, "get", 0),
          new Wait(CompletableFuture.class, "join", 0),
          new Wait(CompletionService.class, "take", 0),
          new Wait(ExecutorService.class, "close", 0),
          new Wait(CountDownLatch.class, "await", 0),
          new Wait(CyclicBarrier.class, "await", 0),
          new Wait(Phaser.class, "arriveAndAwaitAdvance", 0),
          new Wait(Phaser.class, "awaitAdvance", 1),
          new Wait(Semaphore.class, "acquire", 0),
          new Wait(Semaphore.class, "acquire", 1),
          new Wait(Condition.class, "await", 0),
          new Wait(Condition.class, "awaitUninterruptibly", 0),
          new Wait(BlockingQueue.class, "take", 0),
          new Wait(BlockingQueue.class, "put", 1),
          new Wait(BlockingDeque.class, "takeFirst", 0),
          new Wait(BlockingDeque.class, "takeLast", 0),
          new Wait(LockSupport.class, "park", 0),
          new Wait(LockSupport.class, "park", 1));

  /** Methods that may wait without a deadline of their own, each with the reason. */
  private static final Map<String, String> BOUNDED_OTHERWISE =
      Map.of(
          "org.ep4j.engine.host.exec.HostEvent.awaitEnd()",
          "the operation that it waits for has deadlines",
          "org.ep4j.engine.host.exec.HostEvent.awaitEndThoughInterrupted(java.lang.Thread)",
          "the same",
          "org.ep4j.engine.host.exec.WorkerTeam$Helper.awaitRound()",
          "a helper that waits for work blocks no other thread, and close() ends it",
          "org.ep4j.group.SecretDerivation.await(java.util.concurrent.FutureTask)",
          "the derivation is a fixed number of hashes, and waits for nothing",
          "org.ep4j.cli.cache.CacheWarmCommand.compile("
              + "org.ep4j.cuda.jit.KernelCompiler, java.util.List)",
          "the number of kernels bounds the time, and the user sees each one");

  private static final DescribedPredicate<JavaAccess<?>> ENDLESS_WAIT =
      DescribedPredicate.describe(
          "waits without a deadline",
          access ->
              !BOUNDED_OTHERWISE.containsKey(access.getOrigin().getFullName())
                  && access.getTarget() instanceof CodeUnitAccessTarget target
                  && ENDLESS.stream()
                      .anyMatch(
                          wait ->
                              target.getName().equals(wait.name())
                                  && target.getRawParameterTypes().size() == wait.parameters()
                                  && target.getOwner().isAssignableTo(wait.owner())));

  @Test
  void noWaitIsEndless() {
    noClasses()
        .should()
        .accessTargetWhere(ENDLESS_WAIT)
        .because("every wait has a deadline and names its condition")
        .check(Repository.CLASSES);
  }
}
