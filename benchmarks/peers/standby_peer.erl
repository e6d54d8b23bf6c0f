%% Erlang/OTP at the same work, one scheduler.  Prints one line of JSON.
%%
%% A gen_server answers calls and a supervisor stops children: what we are
%% compared with is OTP as it is used, and bare processes where we say so.
-module(standby_peer).
-export([main/1, init/1, handle_call/3, handle_cast/2, start_idle/0, idle/0, turn/1, hop/1, leaf/3]).
-export([start_crasher/1, crasher/0, start_branch/1]).

main([Workload, Count]) ->
    logger:set_primary_config(level, none),
    run(list_to_atom(Workload), list_to_integer(Count)),
    halt(0).

timed(Fun) ->
    {Cpu, _} = statistics(runtime),
    Wall = erlang:monotonic_time(nanosecond),
    Value = Fun(),
    Seconds = (erlang:monotonic_time(nanosecond) - Wall) / 1.0e9,
    {CpuAfter, _} = statistics(runtime),
    {Value, Seconds, (CpuAfter - Cpu) / 1.0e3}.

answer(Expected, Operations, Fun) ->
    {Value, Wall, Cpu} = timed(Fun),
    Expected = Value,
    io:format("{\"operations\": ~w, \"wall\": ~.9f, \"cpu\": ~.9f}~n", [Operations, Wall, Cpu]).

times(0, _) -> ok;
times(N, Fun) -> Fun(N), times(N - 1, Fun).

sum_received(0, Total) -> Total;
sum_received(N, Total) -> receive Number when is_integer(Number) -> sum_received(N - 1, Total + Number) end.

receive_sum() -> receive {sum, Total} -> Total end.

%% Send numbers to a process that adds them up.
run(tell, N) ->
    Me = self(),
    Adder = spawn(fun() -> Me ! {sum, sum_received(N, 0)} end),
    answer(N * (N + 1) div 2, N, fun() ->
        times(N, fun(I) -> Adder ! I end),
        receive_sum()
    end);
%% gen_server:call, one after the other.
run(ask, N) ->
    {ok, Server} = gen_server:start(?MODULE, echo, []),
    answer(N * (N + 1) div 2, N, fun() -> call_sum(Server, N, 0) end);
%% Spawn processes that each take one turn, send a result to their parent and end.
run(fan_out, N) ->
    Me = self(),
    answer(N * (N + 3) div 2, N, fun() ->
        spawn(fun() ->
            Parent = self(),
            times(N, fun(I) -> spawn(?MODULE, turn, [Parent]) ! I end),
            Me ! {sum, sum_received(N, 0)}
        end),
        receive_sum()
    end);
%% One message around a ring of 1000 processes.
run(ring, N) ->
    Me = self(),
    First = spawn(?MODULE, hop, [Me]),
    Last = lists:foldl(fun(_, Next) -> spawn(?MODULE, hop, [Next]) end, First, lists:seq(2, 1000)),
    First ! {next, Last},
    answer(done, N, fun() ->
        Last ! {N, Me},
        receive done -> done end
    end);
%% A tree, ten to each, whose leaves send up their numbers.
run(skynet, N) ->
    Me = self(),
    answer(N * (N - 1) div 2, skynet_size(N), fun() ->
        spawn(?MODULE, leaf, [Me, 0, N]),
        sum_received(1, 0)
    end);
%% Median time to stop one child among N under one supervisor.
run(stop_one, N) ->
    process_flag(trap_exit, true),
    {ok, Supervisor} = supervisor:start_link(?MODULE, supervisor),
    Pids = [element(2, supervisor:start_child(Supervisor, [])) || _ <- lists:seq(1, N)],
    Chosen = lists:sublist(Pids, N div 2, 300),
    Took = lists:sort([
        element(2, timed(fun() -> ok = supervisor:terminate_child(Supervisor, Pid) end))
        || Pid <- Chosen
    ]),
    io:format(
        "{\"operations\": 300, \"wall\": ~.9f, \"cpu\": 0.0, \"figure\": ~.12f}~n",
        [lists:sum(Took), lists:nth(150, Took)]
    );
%% A child of a supervisor crashes each time that we hear of a new one.
%% A hundred to each supervisor: it goes over all restarts of the last second at
%% every further one, which would be measured instead.
run(restart, N) ->
    process_flag(trap_exit, true),
    Times = [restart_hundred() || _ <- lists:seq(1, N div 100)],
    {Walls, Cpus} = lists:unzip(Times),
    io:format("{\"operations\": ~w, \"wall\": ~.9f, \"cpu\": ~.9f}~n", [
        N div 100 * 100, lists:sum(Walls), lists:sum(Cpus)
    ]);
%% A tree of two levels: supervisors below a supervisor, their children from init/1.
run(tree_start, N) ->
    process_flag(trap_exit, true),
    Branches = branches(N),
    answer({Branches, N div Branches}, N, fun() ->
        {ok, Top} = supervisor:start_link(?MODULE, {top, Branches, N div Branches}),
        [{_, Branch, _, _} | _] = supervisor:which_children(Top),
        {active(Top), active(Branch)}
    end);
run(tree_stop, N) ->
    process_flag(trap_exit, true),
    Branches = branches(N),
    {ok, Top} = supervisor:start_link(?MODULE, {top, Branches, N div Branches}),
    answer(shutdown, N, fun() -> leave(Top) end);
%% The same, with every child asked for: simple_one_for_one.
run(dynamic_start, N) ->
    process_flag(trap_exit, true),
    Branches = branches(N),
    {_, Below} = dynamic_tree(Branches),
    answer(N div Branches * Branches, N, fun() ->
        populate(Below, N div Branches),
        lists:sum([active(Branch) || Branch <- Below])
    end);
run(dynamic_stop, N) ->
    process_flag(trap_exit, true),
    Branches = branches(N),
    {Top, Below} = dynamic_tree(Branches),
    populate(Below, N div Branches),
    answer(shutdown, N, fun() -> leave(Top) end).

restart_hundred() ->
    {ok, Supervisor} = supervisor:start_link(?MODULE, {crasher, self()}),
    First = receive {started, Pid} -> Pid end,
    {done, Wall, Cpu} = timed(fun() -> crash(100, First) end),
    shutdown = leave(Supervisor),
    {Wall, Cpu}.

crash(0, _) -> done;
crash(N, Pid) -> Pid ! crash, receive {started, Next} -> crash(N - 1, Next) end.

start_crasher(Main) ->
    Pid = spawn_link(?MODULE, crasher, []),
    Main ! {started, Pid},
    {ok, Pid}.

crasher() -> receive crash -> exit(crash) end.

branches(Children) when Children >= 25000 -> 250;
branches(_) -> 10.

active(Supervisor) -> proplists:get_value(active, supervisor:count_children(Supervisor)).

start_branch(Argument) -> supervisor:start_link(?MODULE, Argument).

dynamic_tree(Branches) ->
    {ok, Top} = supervisor:start_link(?MODULE, {top, Branches, dynamic}),
    {Top, [Pid || {_, Pid, _, _} <- supervisor:which_children(Top)]}.

populate(Supervisors, Each) ->
    [times(Each, fun(_) -> {ok, _} = supervisor:start_child(S, []) end) || S <- Supervisors].

%% End a supervisor as its own supervisor would, and return what it ended with.
leave(Supervisor) ->
    exit(Supervisor, shutdown),
    receive {'EXIT', Supervisor, Reason} -> Reason end.

call_sum(_, 0, Total) -> Total;
call_sum(Server, N, Total) -> call_sum(Server, N - 1, Total + gen_server:call(Server, N)).

skynet_size(1) -> 1;
skynet_size(Leaves) -> Leaves + skynet_size(Leaves div 10).

turn(Parent) -> receive Number -> Parent ! Number + 1 end.

hop(Next) ->
    receive
        {next, Other} -> hop(Other);
        {0, Main} -> Main ! done, hop(Next);
        {N, Main} -> Next ! {N - 1, Main}, hop(Next)
    end.

leaf(Parent, Number, 1) -> Parent ! Number;
leaf(Parent, Number, Leaves) ->
    Share = Leaves div 10,
    Me = self(),
    [spawn(?MODULE, leaf, [Me, Number + I * Share, Share]) || I <- lists:seq(0, 9)],
    Parent ! sum_received(10, 0).

%% One module is the gen_server, the supervisor and the supervisor's child.
init(echo) ->
    {ok, none};
init(supervisor) ->
    Flags = #{strategy => simple_one_for_one},
    Child = #{id => idle, start => {?MODULE, start_idle, []}, shutdown => 5000},
    {ok, {Flags, [Child]}};
init({crasher, Main}) ->
    Flags = #{intensity => 1000000, period => 1},
    {ok, {Flags, [#{id => crasher, start => {?MODULE, start_crasher, [Main]}}]}};
init({top, Branches, Each}) ->
    Below = case Each of dynamic -> supervisor; _ -> {branch, Each} end,
    {ok, {#{}, [
        #{id => B, type => supervisor, start => {?MODULE, start_branch, [Below]}}
        || B <- lists:seq(1, Branches)
    ]}};
init({branch, Each}) ->
    {ok, {#{}, [#{id => I, start => {?MODULE, start_idle, []}} || I <- lists:seq(1, Each)]}}.

handle_call(Message, _, State) -> {reply, Message, State}.
handle_cast(_, State) -> {noreply, State}.

start_idle() -> {ok, spawn_link(?MODULE, idle, [])}.
idle() -> receive stop -> ok end.
